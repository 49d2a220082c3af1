#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the guest's initramfs for one kernel flavour and prints the path of the image.
# Usage: build.sh [--tools] [cloud|stock]    (default: $GUEST, else cloud)
# The modules in it are the kernel's own. --tools: the image for the tests, which also holds
# Debian's perf and the project's own kernel modules.
set -euo pipefail

fail() {
    echo "payload/build.sh: $*" >&2
    exit 1
}

with_tools=0
if [ "${1:-}" = --tools ]; then
    with_tools=1
    shift
fi
flavour=${1:-${GUEST:-cloud}}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/payload
mapfile -t kernel < <("$top/guest/kernel.sh" "$flavour")
[ ${#kernel[@]} -eq 2 ] || fail "no kernel for flavour '$flavour' (see above)"
modules=${kernel[1]}

loop_rounds=1000000
cc=${CC:-gcc}
cflags=(-std=gnu11 -O2 -Wall -Wextra -Werror -static "-DLOOP_ROUNDS=$loop_rounds"
    -I "$here" -I "$top/include")
mkdir -p "$out"

newer_than() { # newer_than FILE SOURCE...: FILE exists and no source is newer
    local file=$1 source
    shift
    [ -e "$file" ] || return 1
    for source in "$@"; do
        [ ! "$source" -nt "$file" ] || return 1
    done
}

sources=("$here"/*.c)
headers=("$here"/*.h "$top"/include/hypercall.h "$top"/include/options.h)
if ! newer_than "$out/init" "${sources[@]}" "${headers[@]}" "$here/build.sh"; then
    "$cc" "${cflags[@]}" -s -o "$out/init" "${sources[@]}"
fi
if ! newer_than "$out/loop" "$here/loop.asm" "$here/build.sh"; then
    nasm -f elf64 "-DLOOP_ROUNDS=$loop_rounds" -o "$out/loop.o" "$here/loop.asm"
    ld -s -o "$out/loop" "$out/loop.o"
fi

name=initrd-$flavour
[ $with_tools -eq 0 ] || name=tools-$flavour
image=$out/$name.img
inputs=("$out/init" "$out/loop" "$modules" "$here/build.sh")
if [ $with_tools -eq 1 ]; then
    own_module=$("$top/guest/module/build.sh" "$flavour")
    # Its functions are what is measured: none may be inlined or lose its frame pointer.
    if ! newer_than "$out/listing2" "$here/profile/listing2.c" "$here/build.sh"; then
        "$cc" -std=gnu11 -O0 -fno-omit-frame-pointer -fno-inline -Wall -Wextra -Werror -static \
            -no-pie -o "$out/listing2" "$here/profile/listing2.c"
    fi
    inputs+=("$own_module" "$out/listing2")
fi
if newer_than "$image" "${inputs[@]}"; then
    echo "$image"
    exit 0
fi

root=$(mktemp -d "$out/.root.XXXXXX")
trap 'rm -rf "$root" "$image.new"' EXIT
mkdir -p "$root"/{dev,proc,sys,tmp,lib/modules}
cp "$out/init" "$out/loop" "$root/"

# A module that the kernel has built in is simply not there.
for module in msr efivarfs; do
    found=$(find "$modules" -name "$module.ko*" -print -quit)
    target=$root/lib/modules/$module.ko
    case $found in
        '') ;;
        *.ko) cp "$found" "$target" ;;
        *.ko.xz) xz -dc "$found" > "$target" ;;
        *.ko.zst) zstd -qdc "$found" > "$target" ;;
        *.ko.gz) gzip -dc "$found" > "$target" ;;
        *) fail "unknown compression: $found" ;;
    esac
done

if [ $with_tools -eq 1 ]; then
    perf=$(command -v perf) || fail "perf is missing; run: testbed/deps.sh check"
    cp "$(dirname "$own_module")"/*.ko "$root/lib/modules/"
    cp "$out/listing2" "$root/"
    mkdir -p "$root/usr/bin"
    cp -L "$perf" "$root/usr/bin/perf"
    # ldd prints "name => path (address)" and, for the loader, "path (address)".
    while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done < <(ldd "$perf" | grep -o '/[^ ]*')
fi

archive() {
    (cd "$root" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --quiet --null --create --format=newc --owner=+0:+0 --reproducible)
}
# The small image stays as it is: reading it is cheaper in an emulator than unpacking it.
if [ $with_tools -eq 1 ]; then
    archive | lz4 -q -l -9 > "$image.new"
else
    archive > "$image.new"
fi
mv "$image.new" "$image"
echo "$image"
