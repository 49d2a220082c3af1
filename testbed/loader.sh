#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes GRUB as a removable medium has it, \EFI\BOOT\BOOTX64.EFI: it finds EFI/pmuvisor/grub.cfg and
# hands over to it. Needs GRUB's modules for x86_64-efi. UEFI, "Removable Media Boot Behavior".
# Usage: loader.sh OUT [ACPI [MODULES]]
# ACPI: a folder whose *.aml GRUB's command acpi loads before. MODULES, or $GRUB_MODULES: another
# GRUB's than this machine's.
set -euo pipefail

fail() {
    echo "loader.sh: $*" >&2
    exit 1
}

out=${1:-} acpi=${2:-} folder=${3:-${GRUB_MODULES:-}}
[ -n "$out" ] || fail "usage: loader.sh OUT [ACPI [MODULES]]"
command -v grub-mkimage > /dev/null || fail "grub-mkimage is missing; run: testbed/deps.sh run"
work=$(mktemp -d "${TMPDIR:-/tmp}/pmuvisor-loader.XXXXXX")
trap 'rm -rf "$work"' EXIT

# GRUB's memory disk: a preamble that hands over to the menu on the volume, and the ACPI tables.
modules=(memdisk tar normal configfile fat part_gpt part_msdos search search_fs_file echo test true
    regexp linux chain acpi boot ls cat sleep reboot halt minicmd video efi_gop loadenv)
mkdir -p "$work/memdisk/boot/grub"
{
    # Its own volume's menu, not the one that an installation on another disk has: where GRUB was
    # loaded from is like "(hd0,gpt1)/EFI/BOOT". 2.06 has it in cmdpath, Debian's 2.12 in fw_path.
    cat <<'END'
regexp --set=1:root '^[(]([^)]+)[)]' "$cmdpath$fw_path"
if [ ! -f /EFI/pmuvisor/grub.cfg ]; then
    search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg
fi
END
    if [ -n "$acpi" ]; then
        mkdir "$work/memdisk/acpi"
        cp "$acpi"/*.aml "$work/memdisk/acpi/" || fail "no .aml files in $acpi"
        # --no-ebda: the tables are published through UEFI, not in the BIOS data area.
        printf 'acpi --no-ebda'
        for table in "$work"/memdisk/acpi/*.aml; do
            printf ' (memdisk)/acpi/%s' "$(basename "$table")"
        done
        echo
    fi
    echo 'configfile /EFI/pmuvisor/grub.cfg'
} > "$work/memdisk/boot/grub/grub.cfg"
(cd "$work/memdisk" && tar --format=ustar --sort=name --mtime="@${SOURCE_DATE_EPOCH:-1704067200}" \
    -cf "$work/memdisk.tar" ./*)
grub-mkimage -O x86_64-efi ${folder:+-d "$folder"} -o "$out" -p '(memdisk)/boot/grub' \
    -m "$work/memdisk.tar" "${modules[@]}"
