#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the accuracy experiment, one static program that runs on any x86-64 Linux, and prints its
# path. Usage: build.sh [OUTDIR]    (default: build/payload of the project; $CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
out=${1:-$top/build/payload}
cc=${CC:-gcc}
program=$out/accuracy
measure=$top/programs/measure

mkdir -p "$out"
if [ -e "$program" ] && [ -z "$(find "$here" "$measure" "$top"/programs/command_line.* -newer "$program" -type f)" ]; then
    echo "$program"
    exit 0
fi
# Whole or not at all: two boots may be made at once.
object=$(mktemp "$out/.measured.XXXXXX")
trap 'rm -f "$object" "$object.new"' EXIT
nasm -f elf64 -Werror -o "$object" "$here/measured.asm"
"$cc" -std=gnu11 -O2 -fno-builtin -Wall -Wextra -Werror -static -pthread -s -I "$top" \
    -o "$object.new" "$here"/*.c "$top/programs/command_line.c" "$measure/statistics.c" "$object"
mv "$object.new" "$program"
echo "$program"
