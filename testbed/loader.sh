#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes GRUB as a removable medium has it, \EFI\BOOT\BOOTX64.EFI: it finds EFI/pmuvisor/grub.cfg and
# hands over to it. Needs GRUB's modules for x86_64-efi. UEFI, "Removable Media Boot Behavior".
# Usage: loader.sh OUT [MODULES [SBAT]]
# MODULES, or $GRUB_MODULES: another GRUB's than this machine's. SBAT: a file, without which shim
# does not start it (metal/shim.sh).
set -euo pipefail

fail() {
    echo "loader.sh: $*" >&2
    exit 1
}

out=${1:-} folder=${2:-${GRUB_MODULES:-}} sbat=${3:-}
[ -n "$out" ] || fail "usage: loader.sh OUT [MODULES [SBAT]]"
command -v grub-mkimage > /dev/null || fail "grub-mkimage is missing; run: testbed/deps.sh run"
work=$(mktemp -d "${TMPDIR:-/tmp}/pmuvisor-loader.XXXXXX")
trap 'rm -rf "$work"' EXIT

# GRUB's memory disk: a preamble that hands over to the menu on the volume.
modules=(memdisk tar normal configfile fat part_gpt part_msdos search search_fs_file echo test true
    regexp linux chain acpi boot ls cat sleep reboot halt minicmd video efi_gop loadenv)
mkdir -p "$work/memdisk/boot/grub"
{
    # Its own volume's menu, not the one that an installation on another disk has: where GRUB was
    # loaded from is like "(hd0,gpt1)/EFI/BOOT". 2.06 has it in cmdpath, Debian's 2.12 in fw_path.
    cat << 'END'
regexp --set=1:root '^[(]([^)]+)[)]' "$cmdpath$fw_path"
if [ ! -f /EFI/pmuvisor/grub.cfg ]; then
    search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg
fi
END
    # There is no menu to go back to.
    printf '%s\n' 'set pmv_first=1' 'export pmv_first' 'configfile /EFI/pmuvisor/grub.cfg'
} > "$work/memdisk/boot/grub/grub.cfg"
(cd "$work/memdisk" && tar --format=ustar --sort=name --mtime="@${SOURCE_DATE_EPOCH:-1704067200}" \
    -cf "$work/memdisk.tar" ./*)
grub-mkimage -O x86_64-efi ${folder:+-d "$folder"} ${sbat:+--sbat "$sbat"} -o "$out" -p \
    '(memdisk)/boot/grub' \
    -m "$work/memdisk.tar" "${modules[@]}"
