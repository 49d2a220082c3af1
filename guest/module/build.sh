#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the guest's kernel modules for one kernel flavour, with Debian's kernel headers of exactly
# that kernel, and prints the path of pmuvisor.ko, beside which pmuvisor_nmi.ko lies.
# Usage: build.sh [cloud|stock]
set -euo pipefail

flavour=${1:-${GUEST:-cloud}}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
headers=$("$top/guest/kernel.sh" --headers "$flavour")
out=$top/build/module/$flavour
module=$out/pmuvisor.ko

if [ -e "$module" ]; then
    newer=$(find "$here" "$top/include/hypercall.h" "$headers/.config" -newer "$module" -type f)
    if [ -z "$newer" ]; then
        echo "$module"
        exit 0
    fi
fi
rm -rf "$out"
mkdir -p "$out"
cp "$here"/*.c "$top/include/hypercall.h" "$out/"
echo 'obj-m := pmuvisor.o pmuvisor_nmi.o' > "$out/Kbuild"
# Type information for BPF would need one more tool, and is of no use here.
if ! env -u MAKEFLAGS -u MAKELEVEL -u CC -u CFLAGS make -C "$headers" M="$out" \
    CONFIG_DEBUG_INFO_BTF_MODULES= modules > "$out/log" 2>&1; then
    echo "module/build.sh: $(grep -m 1 -E 'error|Error' "$out/log" || tail -n 1 "$out/log") (see $out/log)" >&2
    exit 1
fi
echo "$module"
