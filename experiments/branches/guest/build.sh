#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs branchtrace and branchfuzz, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
out=$top/build/branchtrace
cc=${CC:-gcc}
programs=("$out/branchtrace" "$out/branchfuzz")
shared=$top/programs/command_line.c

mkdir -p "$out"
if [ -e "${programs[0]}" ] && [ -e "${programs[1]}" ] &&
    [ -z "$(find "$here" "$top"/programs/{measure/region.h,command_line.*} -newer "${programs[0]}" -type f)" ]; then
    printf '%s\n' "${programs[@]}"
    exit 0
fi
# Whole or not at all: two boots may be made at once.
object=$(mktemp "$out/.stretch.XXXXXX")
trap 'rm -f "$object" "$object.new"' EXIT
nasm -f elf64 -Werror -o "$object" "$here/stretch.asm"
# Addresses are in the lists: the same in each run.
compile() { # compile PROGRAM SOURCE...
    local program=$1
    shift
    "$cc" -std=gnu11 -O2 -g -Wall -Wextra -Werror -static -no-pie -fno-pie -I "$here" -I "$top" \
        -o "$object.new" "$@" "$object"
    mv "$object.new" "$program"
    echo "$program"
}
compile "${programs[1]}" "$here"/{list,output,trace}.c "$here"/fuzz/*.c "$shared"
compile "${programs[0]}" "$here"/*.c "$shared"
