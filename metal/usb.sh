#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the image of a stick that boots PMUvisor on a machine which has nothing of it: TREE/EFI, an
# EFI system partition's whole contents (to be copied to a FAT stick that is in use already), and of
# it IMG, for dd. Both have GRUB, the hypervisor, a kernel, an initramfs with a shell, the menu, the
# measurements, and pmuvisor-check where it is built. Replaces TREE and IMG.
set -euo pipefail

usage="usage: usb.sh [--plan NAME] [--key KEY --cert CERT] --bench DIR --tree TREE --out IMG
              EFI [KERNEL INITRD]
  --bench DIR     that of \`make build/auto/stock/build.txt\`; its kernel and initramfs are the
                  stick's own, unless others are named
  --key, --cert   all that starts is signed with them, and the stick begins with Debian's shim
  --plan NAME     bench=NAME: the stick's next starts measure this plan of bench/measurements.ini"

fail() {
    echo "usb.sh: $*" >&2
    exit 1
}

plan='' sign=() bench='' tree='' out='' key='' cert=''
while [[ ${1:-} == -* ]]; do
    case $1 in
        -h | --help) echo "$usage" && exit 0 ;;
        --plan | --bench | --tree | --out | --key | --cert)
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

work=$(mktemp -d "${TMPDIR:-/tmp}/pmuvisor-usb.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/BOOT"
loader=$here/../testbed/loader.sh
# GRUB alone; or shim, which firmware knows by Microsoft's key or its owner's, then GRUB.
if [ -z "$key$cert" ]; then
    "$loader" "$work/BOOT/BOOTX64.EFI"
else
    "$here/sign.sh" "$key" "$cert"
    shim=$("$here/shim.sh")
    "$loader" "$work/grub.efi" '' "$shim/grub.sbat"
    "$here/sign.sh" "$key" "$cert" "$work/grub.efi" "$work/BOOT/grubx64.efi"
    "$here/sign.sh" "$key" "$cert" "$shim/shimx64.efi" "$work/BOOT/BOOTX64.EFI"
    cp "$shim/mmx64.efi" "$work/BOOT/"
    sign=(--key "$key" --cert "$cert")
fi
rm -rf "$tree"
mkdir -p "$tree/EFI"
cp -r "$work/BOOT" "$tree/EFI/"
"$here/install.sh" --quiet --append "$words" --bench "$bench" ${plan:+--plan "$plan"} \
    "${sign[@]}" "$tree" "$efi" "$kernel" "$initrd"
check=$here/../build/pmuvisor-check
[ ! -x "$check" ] || cp "$check" "$tree/EFI/pmuvisor/"
"$here/../testbed/disk.sh" --gpt --tree "$tree" --out "$out"

secure_boot=', Secure Boot off.'
[ -z "$key" ] || secure_boot='. Where Secure Boot is on, the first start asks for
the key: docs/metal.md, "Secure Boot".'
mib=$(($(stat -c %s "$out") >> 20))
cat << END
The stick's image: $out ($mib MiB). All that is on the stick will be lost:
    dd if=$out of=/dev/STICK bs=4M conv=fsync
or copy $tree/EFI to a stick with FAT. In the firmware's setup: VT-x on$secure_boot
END
[ -z "$plan" ] || cat << END
Each start from the stick measures one column, and the first one says how long the plan $plan takes.
The machine restarts after each, and starts the stick again by itself.
When all is measured, the machine switches itself off. Then mount the stick's partition here:
    make collect ESP=DIR
END
