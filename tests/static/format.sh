#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Lays out C and C++ by clang-format (.clang-format), Python by black (pyproject.toml) and shell
# scripts by shfmt.
# Usage: format.sh [--check]   --check: change nothing, and fail on a difference or a long line
#
# Debian 12 and 13 both have clang-format-19. Their versions of black (23.1, 25.1) and of shfmt
# (3.6, 3.8) differ, but not on this tree: what they would lay out differently is written otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."

columns_max=100
shell_options=(-i 4 -ci -sr)

# find_files EXPRESSION...: the tree's own files, NUL between them
find_files() {
    find . \( -path ./build -o -path ./.git -o -name out \) -prune -o -type f "$@" -print0
}
mapfile -d '' -t c < <(find_files \( -name '*.[ch]' -o -name '*.cc' \))
mapfile -d '' -t python < <(find_files -name '*.py')
# shfmt knows scripts by their first line, too.
mapfile -t shell < <(shfmt -f .ci ./* | grep -v '^build/')

if [ "${1:-}" != --check ]; then
    clang-format-19 -i "${c[@]}"
    black --quiet "${python[@]}"
    shfmt "${shell_options[@]}" -w "${shell[@]}"
    exit
fi
status=0
clang-format-19 --dry-run --Werror "${c[@]}" || status=1
black --check "${python[@]}" || status=1
shfmt "${shell_options[@]}" -d "${shell[@]}" || status=1
awk -v max=$columns_max 'length > max {
    print FILENAME ":" FNR ": found " length " columns, wanted at most " max "; break the line"
    long = 1
}
END { exit long }' "${c[@]}" "${python[@]}" "${shell[@]}" || status=1
exit $status
