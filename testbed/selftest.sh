#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds the emulator's self-test (an EFI application), boots it in the emulator without any
# operating system, once more with a skid, once with another PMU, and once with Intel PT. Looks at
# the files and words of the first boot, too. Touches only a temporary folder. Exit status 0: every
# check holds.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
skid=5
limit=5000 # millions of instructions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "testbed/selftest.sh: $*" >&2
    exit 1
}

# Debian 12 and 13 keep GNU-EFI's linker script and start file in different places.
find_efi() {
    local place
    for place in /usr/lib /usr/lib/x86_64-linux-gnu/gnuefi; do
        if [ -r "$place/$1" ]; then
            echo "$place/$1"
            return
        fi
    done
    die "$1 not found: install the packages that testbed/deps.sh lists"
}

objects=()
for source in "$top"/testbed/selftest/*.c; do
    object=$work/$(basename "$source" .c).o
    "${CC:-gcc}" -std=gnu11 -O2 -Wall -Wextra -Werror -ffreestanding -fpic -fshort-wchar \
        -fno-stack-protector -fcf-protection=none -mno-red-zone -mgeneral-regs-only \
        -isystem /usr/include/efi -isystem /usr/include/efi/x86_64 -c -o "$object" "$source"
    objects+=("$object")
done
# GNU-EFI's start file calls efi_main (3.0.15, Debian 12) or _entry (3.0.18, Debian 13).
ld -nostdlib -znocombreloc -shared -Bsymbolic --no-undefined --defsym=_entry=efi_main \
    -T "$(find_efi elf_x86_64_efi.lds)" \
    -o "$work/selftest.so" "$(find_efi crt0-efi-x86_64.o)" "${objects[@]}" \
    -L "$(dirname "$(find_efi libgnuefi.a)")" -lgnuefi
objcopy -j .text -j .sdata -j .data -j .rodata -j .dynamic -j .dynsym -j '.rel*' -j .reloc \
    --target efi-app-x86_64 "$work/selftest.so" "$work/BOOTX64.EFI"

# 64 cylinders of 16 heads and 63 sectors, which the emulator's ATA disk wants.
PATH=$PATH:/usr/sbin:/sbin
truncate -s $((64 * 16 * 63 * 512)) "$work/disk.img"
mkfs.fat -g 16/63 "$work/disk.img" > /dev/null
export MTOOLS_SKIP_CHECK=1
mmd -i "$work/disk.img" ::/EFI ::/EFI/BOOT
mcopy -i "$work/disk.img" "$work/BOOTX64.EFI" ::/EFI/BOOT/BOOTX64.EFI

# Boots with the knobs file $2, and more words for run.sh, and leaves the lines of the test in
# $work/$1.
boot() {
    local status=0
    "$top/testbed/run.sh" --disk "$work/disk.img" --limit "$limit" --knobs "$2" "${@:3}" \
        --serial "$work/$1.serial" > /dev/null || status=$?
    tr -d '\r' < "$work/$1.serial" | sed -n 's/^.*selftest: //p' > "$work/$1"
    sed 's/^/  /' "$work/$1"
    [ "$status" -eq 0 ] || die "$1: the run ended with status $status"
    grep -qE '^passed 0x0*[1-9a-f][0-9a-f]* failed 0x0+$' "$work/$1" || die "$1: a check failed"
}

position() {
    sed -n 's/^nmi position \(0x[0-9a-f]*\)$/\1/p' "$work/$1" | sed -n 1p
}

echo "guest_files $work/files" > "$work/plain_knobs"
echo "pmi_skid $skid" > "$work/skid_knobs"
printf 'pmu_version 6\npmu_general_mask 0xcf\npmu_fixed_mask 0x2b\n' > "$work/shape_knobs"
boot plain "$work/plain_knobs" --words "some words" 2> "$work/ignored"
echo "ok plain"
grep -qx "words 'some words'" "$work/plain" || die "words: $(grep words "$work/plain")"
echo "ok words"
printf 'one two' | cmp - "$work/files/words" || die "files: words"
[ "$(cd "$work/files" && stat -c '%n %s' -- * | xargs)" = "empty 0 pages 12287 words 7" ] ||
    die "files: $(ls -l "$work/files")"
[ "$(grep -c '^testbed/run.sh: ignored: ' "$work/ignored")" -eq 6 ] ||
    die "files: ignored were: $(cat "$work/ignored")"
echo "ok files"
boot skid "$work/skid_knobs"
[ $(($(position skid) - $(position plain))) -eq "$skid" ] ||
    die "skid: NMI at position $(position skid), wanted $skid after $(position plain)"
echo "ok skid"
boot shape "$work/shape_knobs" --model sapphire_rapids
echo "ok shape"
for pt in on ptwrite; do
    echo "pt $pt" > "$work/pt_knobs"
    boot "pt_$pt" "$work/pt_knobs"
done
echo "ok pt"
