#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs flowtrace and flowdemo, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/trace-tool
cc=${CC:-gcc}

mkdir -p "$out"
# Whole or not at all: two boots may be made at once.
new=$(mktemp "$out/.new.XXXXXX")
trap 'rm -f "$new"' EXIT
compile() { # compile PROGRAM SOURCE...
    local program=$out/$1
    shift
    "$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -static -I "$here" -I "$top/include" \
        -I "$top/programs/measure" -o "$new" "$@"
    chmod 755 "$new"
    mv "$new" "$program"
    echo "$program"
}
compile flowtrace "$here"/*.c
compile flowdemo "$here"/demo/*.c "$here/hypervisor.c"
