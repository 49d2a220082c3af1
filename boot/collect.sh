#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes results.json and report.html of what bare machines measured and left on an EFI system
# partition. Reads ESP/EFI/pmuvisor/bench, writes OUT. Usage: collect.sh ESP OUT
# A column that is not whole yet counts with the jobs that are.
set -euo pipefail

fail() {
    echo "collect.sh: $*" >&2
    exit 1
}

esp=${1:-} out=${2:-}
[ -n "$esp" ] || fail "no ESP given; say where the EFI system partition is mounted:" \
    "make collect ESP=/boot/efi"
[ -n "$out" ] || fail "usage: collect.sh ESP OUT"
folder=$esp/EFI/pmuvisor/bench
[ -d "$folder" ] || fail "'$folder' is not there; was it installed? make install ESP=$esp BENCH=auto"
top=$(cd "$(dirname "$0")/.." && pwd)

files=()
for name in native kvm interc msr msrnmi; do
    if [ -s "$folder/$name.txt" ] && [ -e "$folder/$name.ok" ]; then
        files+=("$folder/$name.txt")
    else
        echo "collect.sh: column $name has no results yet" >&2
    fi
done
[ ${#files[@]} -gt 0 ] || fail "no column in '$folder' has results yet"
mkdir -p "$out"
status=0
"$top/bench/run.py" --out "$out" --import "${files[@]}" || status=$?
[ -s "$out/results.json" ] || fail "no results were made (see above)"
"$top/bench/report.py" --out "$out/report.html" "$out/results.json"
exit "$status"
