#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the kernel module branchtrace for one kernel flavour, with Debian's kernel headers of
# exactly that kernel, and prints its path. Usage: build.sh [cloud|stock]   (default: $GUEST, else
# cloud)
set -euo pipefail

flavour=${1:-${GUEST:-cloud}}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
mkdir -p "$top/build/branchtrace"
exec 9> "$top/build/branchtrace/.lock"
flock 9
headers=$("$top/programs/kernel.sh" --headers "$flavour")
out=$top/build/branchtrace/$flavour
module=$out/branchtrace.ko
sources=("$here"/*.[ch] "$here/build.sh" "$here/../abi.h"
    "$top/programs/measure/region.h")

if [ -e "$module" ] &&
    [ -z "$(find "${sources[@]}" "$headers/.config" -newer "$module")" ]; then
    echo "$module"
    exit 0
fi
rm -rf "$out"
mkdir -p "$out"
# The module has the name of one of its files.
for source in "$here"/*.c; do
    cp "$source" "$out/part_$(basename "$source")"
done
cp "$here"/*.h "$here/../abi.h" "$top/programs/measure/region.h" "$out/"
cat > "$out/Kbuild" << 'END'
obj-m := branchtrace.o
branchtrace-y := part_branchtrace.o part_pmu.o part_device.o
ccflags-y := -I$(src)
END
"$top/programs/kbuild.sh" "$headers" "$out"
echo "$module"
