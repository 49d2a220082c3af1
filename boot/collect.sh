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
[ -d "$folder" ] ||
    fail "'$folder' is not there; was it installed? make install ESP=$esp BENCH=auto"
top=$(cd "$(dirname "$0")/.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The boot menu looks for the same file.
is_whole() {
    [ -s "$folder/$1.txt" ] && [ -e "$folder/$1.ok" ]
}
# What the boot menu noted of a column without results; "no results yet" while it still may come.
why_not() {
    local block=$folder/$1.env
    if grep -q '^why=refused' "$block" 2> /dev/null; then
        echo "it refused to start; its entry of the boot menu shows why"
    elif grep -q '^tries=2' "$block" 2> /dev/null; then
        echo "it was started twice and found no partition to write to, or never came so far"
    else
        echo "no results yet"
    fi
}
files=()
missing=()
for name in native kvm interc msr msrnmi; do
    if is_whole $name; then
        cp "$folder/$name.txt" "$work/"
        files+=("$work/$name.txt")
    else
        missing+=("$name")
    fi
done
[ ${#files[@]} -gt 0 ] || fail "no column in '$folder' has results yet"
for name in "${missing[@]}"; do
    column=${name/interc/intercept}
    column=${column/msrnmi/msr+nmi}
    {
        grep '^env: ' "${files[0]}" | grep -v '^env: \(column\|kvm\|date\)='
        echo "env: column=\"$column\""
        echo "end: column=$column status=1 why=\"$(why_not "$name")\""
    } > "$work/$name.txt"
    files+=("$work/$name.txt")
done
# The column msr+nmi was measured in several boots.
if is_whole msrnmi; then
    for part in all lost skid unbl mask none lazy; do
        if is_whole abl_$part; then
            grep '^bench: experiment=ablation ' "$folder/abl_$part.txt" >> "$work/ablation" || true
        else
            echo "collect.sh: part $part of the ablation has no results yet" >&2
        fi
    done
    if [ -s "$work/ablation" ]; then
        # Before the line that ends the column.
        sed -i "/^end: /,\$d" "$work/msrnmi.txt"
        cat "$work/ablation" >> "$work/msrnmi.txt"
        grep '^end: ' "$folder/msrnmi.txt" >> "$work/msrnmi.txt"
    fi
fi
mkdir -p "$out"
rm -f "$out/results.json"
status=0
said=$("$top/bench/run.py" --out "$out" --import "${files[@]}") || status=$?
printf '%s\n' "${said//"$work/"/}"
[ -s "$out/results.json" ] || fail "no results were made (see above)"
"$top/bench/report.py" --out "$out/report.html" "$out/results.json"
# One complaint of each column that is missing is no error: the others have not been measured yet.
complaints=$(grep -c "^bench: $work/" <<< "$said") || true
[ "$status" -ne 1 ] || [ "$complaints" -ne ${#missing[@]} ] || status=0
exit "$status"
