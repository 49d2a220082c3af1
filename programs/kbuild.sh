#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the kernel modules whose Kbuild and sources lie in a folder, in that folder, with these
# kernel headers. Says nothing, or one line: why not.
# Usage: kbuild.sh HEADERS FOLDER
set -euo pipefail

headers=$1
out=$2
# Type information for BPF would need one more tool, and is of no use here.
if ! env -u MAKEFLAGS -u MAKELEVEL -u CC -u CFLAGS make -C "$headers" M="$out" \
    CONFIG_DEBUG_INFO_BTF_MODULES= modules > "$out/log" 2>&1; then
    line=$(grep -m 1 -E 'error|Error|ERROR' "$out/log" || tail -n 1 "$out/log")
    echo "kbuild.sh: $line (see $out/log)" >&2
    exit 1
fi
