#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Adds branchtrace, branchfuzz and their kernel module to the guest's root, as jobs of these names.
# Usage: root.sh ROOT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[ -d "${1:-}" ] || { echo "branchtrace/root.sh: no folder '${1:-}'; usage: root.sh ROOT" >&2; exit 1; }
mapfile -t programs < <("$here/build.sh")
[ ${#programs[@]} -eq 2 ] || { echo "branchtrace/root.sh: no programs (see above)" >&2; exit 1; }
module=$("$here/module/build.sh")
mkdir -p "$1/jobs" "$1/lib/modules"
cp "${programs[@]}" "$1/jobs/"
cp "$module" "$1/lib/modules/"
