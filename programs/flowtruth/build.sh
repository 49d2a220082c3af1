#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the program flowtruth, static, and prints its path.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/flowtruth
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

compile flowtruth -pthread -I "$top/programs" -I "$top/programs/trace/demo" "$here"/*.c \
    "$top/programs/trace/hypervisor.c" "$top/programs/trace/demo/hand_over.c"
