#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the launcher, a static program, and prints its path. Usage: build.sh [CC=gcc]
# The checks of a kernel file are the hypervisor's own (guest/linux_probe.c).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/kvm
cc=${CC:-gcc}
sources=("$here"/*.c "$top"/guest/linux_probe.c "$top"/lib/refusal.c "$top"/lib/format.c)
cflags=(-std=gnu11 -O2 -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes
    -Wmissing-prototypes -static -I "$top" -I "$top/include")

mkdir -p "$out"
stale=1
if [ -e "$out/launch" ] && [ "$(cat "$out/flags" 2> /dev/null)" = "$cc ${cflags[*]}" ]; then
    stale=0
    for source in "${sources[@]}" "$here"/*.h "$top"/include/*.h "$top"/guest/linux.h "$0"; do
        [ ! "$source" -nt "$out/launch" ] || stale=1
    done
fi
if [ $stale -eq 1 ]; then
    "$cc" "${cflags[@]}" -s -o "$out/launch.$$" "${sources[@]}"
    mv "$out/launch.$$" "$out/launch"
    echo "$cc ${cflags[*]}" > "$out/flags"
fi
echo "$out/launch"
