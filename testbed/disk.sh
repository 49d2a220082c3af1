#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the disk that a run boots from: a FAT volume with GRUB as \EFI\BOOT\BOOTX64.EFI, the
# project's own boot menu, and \EFI\pmuvisor\ with hypervisor, kernel and initramfs.
# Needs no root: mtools, mkfs.fat and testbed/loader.sh only.
set -euo pipefail

usage() {
    cat << 'USAGE'
usage: disk.sh --out IMG --efi FILE --kernel FILE --initrd FILE [options]
  --entry ID         menu entry to boot: native or a policy (default: msr+nmi)
  --append S         the guest's kernel command line
  --config "k=v .."  options for pmuvisor.cfg, separated by blanks
  --cpus N           for the emulator with N processors, whose ACPI tables the menu then loads; a
                     disk for another machine is without
  --acpi DIR         in place of those the tables DIR/*.aml
  --grub DIR         GRUB's modules, in place of this machine's
  --menu FILE        use this menu instead of testbed/grub.cfg
  --columns FILE     what menu.sh prints, where it is known
  --add SRC=DST      copy one more file, or folder, onto the volume (may be repeated)
  --tree DIR         an EFI system partition that `make install` or `make usb` has filled: its
                     folder EFI instead of all other files
  --gpt              a whole disk, with a partition table and the volume in FAT32 as its EFI system
                     partition
  --size MIB         of the disk, in place of the smallest of few sizes
  --volume N         a volume without GRUB, for a disk that has GRUB elsewhere; so many sectors
                     before the first FAT
USAGE
}

fail() {
    echo "disk.sh: $*" >&2
    exit 1
}

top=$(cd "$(dirname "$0")/.." && pwd)
out='' efi='' kernel='' initrd='' entry=msr+nmi append='' config='' acpi='' cpus='' tree='' gpt=0
size='' volume='' grub='' columns=''
menu=$top/testbed/grub.cfg
added=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --gpt)
            gpt=1
            shift
            continue
            ;;
        --out | --efi | --kernel | --initrd | --entry | --append | --config | --acpi | --cpus | \
            --menu | --add | --tree | --size | --volume | --grub | --columns)
            [ $# -ge 2 ] || fail "$1 wants a value (see --help)"
            ;;
        *) fail "unknown option '$1' (see --help)" ;;
    esac
    case $1 in
        --out) out=$2 ;;
        --efi) efi=$2 ;;
        --kernel) kernel=$2 ;;
        --initrd) initrd=$2 ;;
        --entry) entry=$2 ;;
        --append) append=$2 ;;
        --config) config=$2 ;;
        --acpi) acpi=$2 ;;
        --cpus) cpus=$2 ;;
        --grub) grub=$2 ;;
        --menu) menu=$2 ;;
        --add) added+=("$2") ;;
        --tree) tree=$2 ;;
        --size) size=$2 ;;
        --volume) volume=$2 ;;
        --columns) columns=$2 ;;
    esac
    shift 2
done
[ -n "$out" ] || fail "--out is missing (see --help)"
for file in "${efi:-/dev/null}" "${kernel:-/dev/null}" "${initrd:-/dev/null}" "$menu"; do
    [ -r "$file" ] || fail "cannot read $file"
done
[ -z "$tree" ] || [ -d "$tree/EFI/pmuvisor" ] ||
    fail "--tree: '$tree' has no folder EFI/pmuvisor; fill it: make install ESP=$tree"
case $append in
    *[\'$'\n']*) fail "--append may not hold a single quote or a line end" ;;
esac
# Debian keeps mkfs.fat where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin
for tool in mcopy mmd mkfs.fat; do
    command -v "$tool" > /dev/null || fail "$tool is missing; run: testbed/deps.sh run"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/pmuvisor-disk.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The same files make the same image: a run repeats exactly. mtools takes the files' dates from
# here.
export SOURCE_DATE_EPOCH=1704067200 TZ=UTC0

# What goes onto the volume.
folder=$work/EFI/pmuvisor
mkdir -p "$work/EFI"
if [ -z "$grub" ] && [ -r "$tree/EFI/BOOT/BOOTX64.EFI" ]; then
    cp -rL "$tree/EFI/BOOT" "$work/EFI/"
elif [ -z "$volume" ]; then
    mkdir "$work/EFI/BOOT"
    "$top/testbed/loader.sh" "$work/EFI/BOOT/BOOTX64.EFI" "$grub"
fi

# \EFI\pmuvisor as the options say.
fill_folder() {
    mkdir "$folder"
    [ -z "$efi" ] || cp -L "$efi" "$folder/pmuvisor.efi"
    [ -z "$kernel" ] || cp -L "$kernel" "$folder/vmlinuz"
    [ -z "$initrd" ] || cp -L "$initrd" "$folder/initrd.img"
    cp -L "$menu" "$folder/grub.cfg"
    if [ -n "$columns" ]; then
        cp "$columns" "$folder/columns.cfg"
    else
        "$top/testbed/menu.sh" > "$folder/columns.cfg"
    fi
    {
        echo "set default='$entry'"
        echo "set timeout=0"
        echo "set append='$append'"
        # An experiment's policy has no entry: it wins over the one that the entry names.
        [[ " $config " =~ \ (policy=[^\ ]*)\  ]] && echo "set pmv_args='${BASH_REMATCH[1]}'"
        # Nobody is there to choose another entry: where the first one fails, the run ends in a
        # reset. GRUB's fallback is a number; this entry is the first: the menu sources this file
        # first.
        echo "set fallback=0"
        echo "menuentry 'reset the machine' --id failed { reboot }"
    } > "$folder/local.cfg"
    {
        echo "# Written by disk.sh."
        read -ra words <<< "$config"
        [ ${#words[@]} -eq 0 ] || printf '%s\n' "${words[@]}"
        [ -z "$append" ] || echo "append=$append"
    } > "$folder/pmuvisor.cfg"
}
if [ -n "$tree" ]; then
    cp -rL "$tree/EFI/pmuvisor" "$folder"
else
    fill_folder
fi
if [ -n "$cpus" ] && [ -z "$acpi" ]; then
    acpi=$work/acpi
    "$top/testbed/acpi/build.sh" "$acpi" "$cpus" > "$work/acpi.log" 2>&1 ||
        fail "cannot build the ACPI tables: $(tail -n 1 "$work/acpi.log")"
fi
if [ -n "$acpi" ]; then
    mkdir "$work/EFI/acpi"
    cp "$acpi"/*.aml "$work/EFI/acpi/" || fail "no .aml files in $acpi"
    {
        # --no-ebda: the tables are published through UEFI, not in the BIOS data area.
        printf 'acpi --no-ebda'
        for table in "$work"/EFI/acpi/*.aml; do
            printf ' /EFI/acpi/%s' "$(basename "$table")"
        done
        echo
        cat "$folder/grub.cfg"
    } > "$work/menu"
    mv "$work/menu" "$folder/grub.cfg"
fi

# The size in whole cylinders of 16 heads and 63 sectors, as the emulator's ATA disk wants it.
cylinder=$((16 * 63 * 512))
bytes=$((1024 * 1024))
for file in "$work/EFI" "${added[@]%%=*}"; do
    bytes=$((bytes + $(du --bytes --summarize --dereference "$file" | cut -f 1)))
done
# Few sizes: runs that begin alike have disks of one size (run.sh --from).
step=$((128 * cylinder))
cylinders=$(((bytes + 15 * 1024 * 1024 + step - 1) / step * 128))
image=$work/disk.img
format=(-g 16/63)
if [ $gpt -eq 1 ]; then
    # Some firmware takes FAT32 alone from a stick. The volume begins after the first MiB, and
    # gpt.py adds another one at the end: the disk has whole cylinders.
    image=$work/volume.img
    format+=(-F 32 -h 2048)
else
    # Large clusters: GRUB looks each one up.
    format+=(-s 64)
fi
[ -z "$volume" ] || format+=(-R "$volume")
if [ -n "$size" ]; then
    [ "$bytes" -le $((size << 20)) ] ||
        fail "--size: $size MiB are too few for $((bytes >> 20)) MiB"
    truncate -s $(((size - 2 * gpt) << 20)) "$image"
else
    truncate -s $((cylinders * cylinder - gpt * (2 << 20))) "$image"
fi
mkfs.fat -n PMUVISOR "${format[@]}" --invariant "$image" > /dev/null
export MTOOLS_SKIP_CHECK=1
# In the order of their names, not in that of the host's folder: firmware and GRUB read it through.
mmd -i "$image" ::/EFI
for name in acpi BOOT pmuvisor; do
    [ -d "$work/EFI/$name" ] || continue
    mmd -i "$image" "::/EFI/$name"
    mcopy -s -i "$image" "$work/EFI/$name"/* "::/EFI/$name/"
done
for pair in "${added[@]}"; do
    mcopy -o -s -i "$image" "${pair%%=*}" "::${pair#*=}"
done
if [ $gpt -eq 1 ]; then
    "$top/testbed/gpt.py" "$image" "$work/disk.img"
    image=$work/disk.img
fi
mkdir -p "$(dirname "$out")"
# A run that was killed can leave the emulator's lock behind.
rm -f "$out.lock"
mv "$image" "$out"
