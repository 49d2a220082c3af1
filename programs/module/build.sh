#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the guest's kernel modules for one kernel flavour, with Debian's kernel headers of exactly
# that kernel, and prints the path of pmuvisor.ko, beside which pmuvisor_nmi.ko,
# pmuvisor_measure.ko and pmuvisor_stuck.ko lie.
# Usage: build.sh [cloud|stock]
set -euo pipefail

flavour=${1:-${GUEST:-cloud}}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
mkdir -p "$top/build/module"
# Several images may want it at once.
exec 9> "$top/build/module/.lock"
flock 9
headers=$("$top/programs/kernel.sh" --headers "$flavour")
out=$top/build/module/$flavour
module=$out/pmuvisor.ko

if [ -e "$module" ]; then
    newer=$(find "$here" "$top/programs/measure" "$top/include/hypercall.h" "$headers/.config" \
        -newer "$module" -type f)
    if [ -z "$newer" ]; then
        echo "$module"
        exit 0
    fi
fi
rm -rf "$out"
mkdir -p "$out/measure"
cp "$here"/*.c "$top/include/hypercall.h" "$out/"
cp "$top"/programs/measure/*.[ch] "$out/measure/"
parts=("$out"/measure/*.c)
parts=("${parts[@]##*/}")
cat > "$out/Kbuild" << END
obj-m := pmuvisor.o pmuvisor_nmi.o pmuvisor_measure.o pmuvisor_stuck.o
pmuvisor_measure-y := measure_linux.o ${parts[*]/#/measure/}
ccflags-y := -I\$(src)
END
sed -i '/^pmuvisor_measure-y/s/\.c\>/.o/g' "$out/Kbuild"
"$top/programs/kbuild.sh" "$headers" "$out"
echo "$module"
