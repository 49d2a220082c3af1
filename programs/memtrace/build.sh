#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs memtrace and memdemo, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/memtrace-tool
flow=$top/programs/trace
cc=${CC:-gcc}

mkdir -p "$out"
# Whole or not at all: two boots may be made at once.
new=$(mktemp "$out/.new.XXXXXX")
trap 'rm -f "$new"' EXIT
compile() { # compile PROGRAM SOURCE...
    local program=$out/$1
    shift
    "$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -static -I "$here" -I "$flow" -I "$flow/demo" \
        -I "$top/include" -I "$top/programs/measure" -o "$new" "$@"
    chmod 755 "$new"
    mv "$new" "$program"
    echo "$program"
}
compile memtrace "$here"/*.c "$flow"/{hypervisor,ring_reader,trace_file}.c
compile memdemo "$here"/demo/main.c "$flow"/demo/{hand_over,print_file}.c "$flow"/hypervisor.c
compile matrix "$here"/demo/matrix.c
