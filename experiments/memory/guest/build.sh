#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs memtrace and memdemo, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
shared=$top/experiments/shared/guest
out=$top/build/memtrace-tool
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

folders=(-I "$shared" -I "$top/programs" -I "$top/programs/measure")
compile memtrace "${folders[@]}" "$here"/*.c "$shared"/{hypervisor,ring_reader,trace_file}.c
compile memdemo "${folders[@]}" "$here"/demo/main.c "$shared"/{hand_over,print_file,hypervisor}.c \
    "$top/programs/command_line.c"
compile matrix "${folders[@]}" "$here"/demo/matrix.c
install -m 755 "$here/demo/memstores.sh" "$out/memstores"
echo "$out/memstores"
