#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the program flowtruth, static, and prints its path.
# Usage: build.sh ($CC: gcc)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
shared=$top/experiments/shared/guest
out=$top/build/flowtruth
# shellcheck source=programs/static.sh
. "$top/programs/static.sh"

compile flowtruth -pthread -I "$shared" "$here"/*.c "$shared"/{hypervisor,hand_over}.c
