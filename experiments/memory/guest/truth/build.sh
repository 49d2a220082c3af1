#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the program memtruth, static, and prints its path.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
out=$top/build/memtruth
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

compile memtruth -I "$top/programs" "$here"/*.c "$top/programs/command_line.c"
