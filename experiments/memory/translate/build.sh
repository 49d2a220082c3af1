#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the plugin of QEMU's translator and the loop as a program of this machine.
# Usage: build.sh OUTDIR   makes OUTDIR/plugin.so and OUTDIR/native
set -euo pipefail

[ $# -eq 1 ] || {
    echo "usage: experiments/memory/translate/build.sh OUTDIR" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
flags=(-O2 -Wall -Wextra -Werror)
# The interface's number says which of its functions a plugin means. QEMU takes a span of them; what
# plugin.c uses is the same in all. So the first that this QEMU takes will do.
for version in 1 2 3 4 5 6; do
    gcc "${flags[@]}" -fPIC -shared -fvisibility=hidden -DPLUGIN_VERSION=$version \
        -o "$out/plugin.so" "$here/plugin.c"
    # -M none has no kernel and no devices: QEMU ends at once, by the monitor.
    if said=$(echo quit | qemu-system-x86_64 -M none -accel tcg -display none -monitor stdio \
        -plugin "$out/plugin.so,mode=hook,accesses=2" 2>&1); then
        break
    fi
    if [ "$version" -eq 6 ]; then
        echo "experiments/memory/translate/build.sh: QEMU refuses the plugin: $said" >&2
        exit 1
    fi
done
nasm -f elf64 -Werror -o "$out/write_loop.o" "$here/../tests/kernel/write_loop.asm"
gcc "${flags[@]}" -o "$out/native" "$here/native.c" "$out/write_loop.o"
