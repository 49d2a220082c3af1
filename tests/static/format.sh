#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Lays out the hypervisor's C by clang-format (.clang-format), experiments' parts of it too.
# Usage: format.sh [--check]   --check: change nothing, and fail on a difference or a long line
#
# clang-format-19 is in Debian 12 and in Debian 13, so both give the same layout.
set -euo pipefail
cd "$(dirname "$0")/../.."

columns_max=100
shopt -s globstar nullglob
read -ra folders < <(sed -n 's/^FOLDERS = //p' Makefile)
files=()
for folder in "${folders[@]}" include experiments/*/hypervisor; do
    files+=("$folder"/*.[ch])
done

if [ "${1:-}" != --check ]; then
    exec clang-format-19 -i "${files[@]}"
fi
status=0
clang-format-19 --dry-run --Werror "${files[@]}" || status=1
awk -v max=$columns_max 'length > max {
    print FILENAME ":" FNR ": found " length " columns, wanted at most " max "; break the line"
    long = 1
}
END { exit long }' "${files[@]}" || status=1
exit $status
