#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Copies PMUvisor, a kernel with its initramfs and the boot menu onto an EFI system partition.
# Usage: install.sh ESP IMAGE [KERNEL [INITRD]]   (default: the running kernel's own files)
# Touches only ESP/EFI/pmuvisor; files there that a user may have edited are kept.
set -euo pipefail

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

esp=${1:-}
image=${2:-}
release=$(uname -r)
kernel=${3:-/boot/vmlinuz-$release}
initrd=${4:-/boot/initrd.img-$release}
[ -n "$esp" ] ||
    fail "no ESP given; say where the EFI system partition is mounted: make install ESP=/boot/efi"
[ -d "$esp" ] || fail "ESP: '$esp' is not a folder; mount the EFI system partition and name it"
[ -d "$esp/EFI" ] || [ -d "$esp/efi" ] ||
    fail "ESP: '$esp' has no folder EFI, so it is no EFI system partition;" \
        "usual places: /boot/efi, /efi"
[ -r "$image" ] || fail "cannot read '$image'; build it first: make"
[ -r "$kernel" ] || fail "cannot read the kernel '$kernel'; name one: KERNEL=FILE INITRD=FILE"
[ -r "$initrd" ] || fail "cannot read the initrd '$initrd'; name one: KERNEL=FILE INITRD=FILE"
[ -w "$esp/EFI" ] || [ -w "$esp/efi" ] || fail "ESP: '$esp' cannot be written; run as root"

here=$(cd "$(dirname "$0")" && pwd)
target=$esp/EFI/pmuvisor
needed=$(($(stat -L -c %s "$kernel") + $(stat -L -c %s "$initrd") + $(stat -L -c %s "$image")))
free=$(($(stat -f -c '%a * %S' "$esp")))
for old in vmlinuz initrd.img pmuvisor.efi; do
    [ ! -f "$target/$old" ] || free=$((free + $(stat -c %s "$target/$old")))
done
[ "$needed" -lt "$free" ] ||
    fail "ESP: $((needed >> 20)) MiB needed, $((free >> 20)) MiB free in '$esp'; make room there"

mkdir -p "$target"
cp -L "$image" "$target/pmuvisor.efi"
cp -L "$kernel" "$target/vmlinuz"
cp -L "$initrd" "$target/initrd.img"
cp "$here/grub.cfg" "$target/grub.cfg"
# The running system's own command line is the best guess for the guest; GRUB's own words are not
# part of it.
words=''
read -ra command_line < /proc/cmdline
for word in "${command_line[@]}"; do
    case $word in
        BOOT_IMAGE=* | initrd=* | *\'*) ;;
        *) words+="${words:+ }$word" ;;
    esac
done
if [ ! -e "$target/pmuvisor.cfg" ]; then
    printf '%s\n' '# Options of PMUvisor, one per line; append= is the kernel command line.' \
        "append=$words" > "$target/pmuvisor.cfg"
fi
if [ ! -e "$target/local.cfg" ]; then
    printf '%s\n' '# Sourced by grub.cfg beside it.' "set append='$words'" > "$target/local.cfg"
fi
cat <<END
Installed in $target (kernel: $kernel).
Kernel command line and options: $target/pmuvisor.cfg and local.cfg.
To reach its menu from this machine's GRUB, put these two lines into /boot/grub/custom.cfg:
    search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg
    configfile /EFI/pmuvisor/grub.cfg
END
