#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the programs flowtrace and flowdemo, static, and prints their paths.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/trace-tool
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

measure=(-I "$top/programs/measure")
compile flowtrace "${measure[@]}" "$here"/*.c
compile flowdemo "${measure[@]}" -I "$top/programs" "$here"/demo/*.c "$here/hypervisor.c" \
    "$top/programs/command_line.c"
