#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Adds branchtrace, branchfuzz and their kernel module to the guest's root, as jobs of these names.
# Usage: root.sh ROOT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
fail() {
    echo "branchtrace/root.sh: $*" >&2
    exit 1
}
[ -d "${1:-}" ] || fail "no folder '${1:-}'; usage: root.sh ROOT"
mapfile -t programs < <("$here/build.sh")
[ ${#programs[@]} -eq 2 ] || fail "no programs (see above)"
module=$("$here/module/build.sh")
mkdir -p "$1/jobs" "$1/lib/modules"
cp "${programs[@]}" "$1/jobs/"
cp "$module" "$1/lib/modules/"
