#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the program flowtruth, static, and prints its path.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/flowtruth
cc=${CC:-gcc}

mkdir -p "$out"
# Whole or not at all: two boots may be made at once.
new=$(mktemp "$out/.new.XXXXXX")
trap 'rm -f "$new"' EXIT
"$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -static -I "$here" -I "$top/include" -pthread \
    -I "$top/programs" -I "$top/programs/trace/demo" -o "$new" "$here"/*.c \
    "$top/programs/trace/hypervisor.c" "$top/programs/trace/demo/hand_over.c"
mv "$new" "$out/flowtruth"
echo "$out/flowtruth"
