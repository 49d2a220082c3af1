#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the disk of the outer system and prints its path: firmware boots GRUB and Debian's kernel
# from it, natively, whose init starts QEMU under its own KVM. What QEMU's machine boots is not in
# it: the third partition is empty, and layout.sh says where it is.
# Usage: build.sh CPUS [WORDS]   processors of QEMU's machine; more words for the outer kernel
# Programs and libraries are this machine's (testbed/deps.sh kvm), the kernel is the guest's.
set -euo pipefail

fail() {
    echo "outer/build.sh: $*" >&2
    exit 1
}

[[ ${1:-} =~ ^[1-9]$ ]] || fail "found '${1:-}', wanted the processors of QEMU's machine, 1 to 9"
cpus=$1
words=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/outer
# shellcheck source=programs/payload/parts.sh
. "$top/programs/payload/parts.sh"
# shellcheck source=testbed/outer/layout.sh
. "$here/layout.sh"
# Debian keeps mke2fs where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin
programs=(/usr/bin/qemu-system-x86_64 /bin/bash /usr/bin/timeout /bin/grep)
# QEMU's -bios, what its machine loads for -vga std, and for -kernel.
data=(/usr/share/ovmf/OVMF.fd /usr/share/seabios/vgabios-stdvga.bin /usr/share/qemu/kvmvapic.bin)
for file in "${programs[@]}" "${data[@]}"; do
    [ -r "$file" ] || "$top/testbed/deps.sh" run kvm || exit 1
done
command -v mke2fs > /dev/null || fail "mke2fs is missing; install the package e2fsprogs"
mapfile -t kernel < <("$top/programs/kernel.sh" cloud)
[ ${#kernel[@]} -eq 2 ] || fail "no kernel (see above)"
packages=$("$top/programs/workloads/fetch.sh")
disk_modules=(scsi_common scsi_mod libata ata_piix sd_mod)
kvm_modules=(irqbypass kvm kvm-intel)
append='console=ttyS0,115200 loglevel=1 mitigations=off nowatchdog cryptomgr.notests=1'
export SOURCE_DATE_EPOCH=1704067200 TZ=UTC0

mkdir -p "$out"
# Boots are made several at once.
exec 9> "$out/.lock"
flock 9
work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# With every library that the program is linked with, and the loader that finds them.
add_installed() { # add_installed ROOT PROGRAM
    local library
    mkdir -p "$1/$(dirname "$2")"
    cp -L --remove-destination "$2" "$1/$2"
    while read -r library; do
        mkdir -p "$1/$(dirname "$library")"
        cp -L "$library" "$1/$library"
    done < <(ldd "$2" | grep -o '/[^ ]*')
}

fill_root() {
    local root=$1 file
    mkdir -p "$root"/{dev,proc,sys,tmp,pmuvisor/bench}
    add_busybox "$root" "$packages"
    for file in "${programs[@]}"; do
        add_installed "$root" "$file"
    done
    for file in "${data[@]}"; do
        mkdir -p "$root/$(dirname "$file")"
        cp -L "$file" "$root/$file"
    done
    for file in "${kvm_modules[@]}"; do
        add_module "$root" "${kernel[1]}" "$file"
    done
    cp "$here/outer.sh" "$root/outer.sh"
    cp "$top/run-qemu.sh" "$top/testbed/kvm_exits.sh" "$root/pmuvisor/"
    # GRUB alone, which looks for the menu on the other disk.
    mkdir -p "$work/grub/EFI/pmuvisor"
    echo "The menu is on another disk." > "$work/grub/EFI/pmuvisor/README"
    "$top/testbed/disk.sh" --out "$root/pmuvisor/grub.img" --tree "$work/grub" --size 20
}

fill_initramfs() {
    local root=$1 file
    mkdir -p "$root"/{dev,root}
    add_busybox "$root" "$packages"
    for file in "${disk_modules[@]}"; do
        add_module "$root" "${kernel[1]}" "$file"
    done
    printf '%s\n' "${disk_modules[@]}" > "$root/modules"
    cp "$here/init.sh" "$root/init"
}

put() { # put FILE SECTOR: into the image
    dd if="$1" of="$work/disk" bs=1M seek="$(($2 * 512))" oflag=seek_bytes conv=notrunc,sparse \
        status=none
}

fill_root "$work/root"
fill_initramfs "$work/initramfs"
key=$( (
    key_of "$work/root"
    key_of "$work/initramfs"
    cat "$here"/*.sh
    echo "${kernel[0]} $cpus $words"
    cat "$top"/testbed/{disk.sh,loader.sh,gpt.py,acpi/*}
) | sha256sum | cut -c 1-16)
image=$out/outer-$cpus${words:+-$(sha256sum <<< "$words" | cut -c 1-8)}.img
if [ ! -e "$image" ] || [ "$(cat "$image.key" 2> /dev/null)" != "$key" ]; then
    truncate -s $((outer_root_sectors * 512)) "$work/ext4"
    mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0,lazy_itable_init=0 -U clear \
        -d "$work/root" "$work/ext4"
    archive "$work/initramfs" > "$work/initrd"
    "$top/testbed/acpi/build.sh" "$work/acpi" 1 > /dev/null
    "$top/testbed/disk.sh" --out "$work/boot" --size $((outer_boot_sectors / 2048)) \
        --menu "$here/grub.cfg" --acpi "$work/acpi" --kernel "${kernel[0]}" \
        --initrd "$work/initrd" --append "$append pmv.cpus=$cpus${words:+ $words}"
    PYTHONPATH=$top /usr/bin/python3 -B - > "$work/disk" << END
import sys
from testbed import gpt
sys.stdout.buffer.write(gpt.mbr((0xef, $outer_boot_first, $outer_boot_sectors),
                                (0x83, $outer_root_first, $outer_root_sectors),
                                (0x0c, $outer_job_first, $outer_job_sectors)))
END
    truncate -s $((outer_sectors * 512)) "$work/disk"
    put "$work/boot" $outer_boot_first
    put "$work/ext4" $outer_root_first
    mv "$work/disk" "$image"
    echo "$key" > "$image.key"
fi
echo "$image"
