#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs memtrace and memdemo, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/memtrace-tool
flow=$top/programs/trace
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

shared=(-I "$flow" -I "$flow/demo" -I "$top/programs" -I "$top/programs/measure")
compile memtrace "${shared[@]}" "$here"/*.c "$flow"/{hypervisor,ring_reader,trace_file}.c
compile memdemo "${shared[@]}" "$here"/demo/main.c "$flow"/demo/{hand_over,print_file}.c \
    "$flow"/hypervisor.c "$top/programs/command_line.c"
compile matrix "${shared[@]}" "$here"/demo/matrix.c
install -m 755 "$here/demo/memstores.sh" "$out/memstores"
echo "$out/memstores"
