#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the image of a stick that boots PMUvisor on a machine which has nothing of it: TREE/EFI, an
# EFI system partition's whole contents (to be copied to a FAT stick that is in use already), and of
# it IMG, for dd. Both have GRUB, the hypervisor, a kernel, an initramfs with a shell, the menu, the
# measurements, and pmuvisor-check where it is built. Replaces TREE and IMG.
set -euo pipefail

usage="usage: usb.sh [--auto] --bench DIR --tree TREE --out IMG EFI [KERNEL INITRD]
  --bench DIR     that of \`make build/auto/stock/build.txt\`; its kernel and initramfs are the
                  stick's own, unless others are named
  --auto          bench=auto: the stick's next starts measure every column, one after another"

fail() {
    echo "usb.sh: $*" >&2
    exit 1
}

auto=() bench='' tree='' out=''
while [[ ${1:-} == --* ]]; do
    case $1 in
        --help) echo "$usage" && exit 0 ;;
        --auto) auto=(--auto) ;;
        --bench | --tree | --out)
            [ $# -ge 2 ] || fail "$1 wants a value (see --help)"
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        *) fail "unknown option '$1' (see --help)" ;;
    esac
    shift
done
[ -n "$bench" ] && [ -n "$tree" ] && [ -n "$out" ] ||
    fail "--bench, --tree and --out are needed (see --help)"
[ $# -eq 1 ] || [ $# -eq 3 ] ||
    fail "found $# files, wanted the image alone, or KERNEL=FILE and INITRD=FILE both"
efi=$1 kernel=${2:-$bench/vmlinuz} initrd=${3:-$bench/initrd.img}
here=$(cd "$(dirname "$0")" && pwd)

# The screen is the console, because a stick's machine has one; the serial line has all that the
# kernel says, and a shell too (metal/auto/shell.sh).
words="console=ttyS0,115200 console=tty0 quiet pmv.run=shell"
[ $# -eq 1 ] || words="console=ttyS0,115200 console=tty0"

# What is there may be no output of ours.
[ ! -e "$tree" ] || [ -d "$tree/EFI/pmuvisor" ] ||
    fail "--tree: '$tree' is there and has no folder EFI/pmuvisor; name another one"
rm -rf "$tree"
mkdir -p "$tree/EFI/BOOT"
"$here/../testbed/loader.sh" "$tree/EFI/BOOT/BOOTX64.EFI"
"$here/install.sh" --quiet --append "$words" --bench "$bench" "${auto[@]}" "$tree" "$efi" \
    "$kernel" "$initrd"
check=$here/../build/pmuvisor-check
[ ! -x "$check" ] || cp "$check" "$tree/EFI/pmuvisor/"
"$here/../testbed/disk.sh" --gpt --tree "$tree" --out "$out"

cat <<END
The stick's image: $out ($(($(stat -c %s "$out") >> 20)) MiB). All that is on the stick will be lost:
    dd if=$out of=/dev/STICK bs=4M conv=fsync
or copy $tree/EFI to a stick with FAT. In the firmware's setup: VT-x on, Secure Boot off.
END
[ ${#auto[@]} -eq 0 ] || cat <<END
Each start from the stick measures one column. Afterwards, with the stick's partition mounted:
    make collect ESP=DIR
END
