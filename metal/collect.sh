#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes results.json and report.html of what bare machines measured and left on an EFI system
# partition, and copies the log that a start which failed left there. Reads ESP/EFI/pmuvisor, writes
# OUT. Usage: collect.sh ESP OUT
# A column that is not whole yet counts with the jobs that are; a torn file counts as not there.
set -euo pipefail

fail() {
    echo "collect.sh: $*" >&2
    exit 1
}

esp=${1:-} out=${2:-}
[ -n "$esp" ] || fail "no ESP given; say where the EFI system partition is mounted:" \
    "make collect ESP=/boot/efi"
[ -n "$out" ] || fail "usage: collect.sh ESP OUT"
[ ! -d "$esp" ] || [ -x "$esp" ] || fail "ESP: '$esp' cannot be entered; be root"
log=$esp/EFI/pmuvisor/pmuvisor.log
left=
if [ -s "$log" ]; then
    mkdir -p "$out"
    cp "$log" "$out/pmuvisor.log"
    left=$out/pmuvisor.log
    echo "A start that failed, or was ended by a reset, left: $left"
fi

# no_results WHY: what is left of a crash is enough.
no_results() {
    [ -z "$left" ] || exit 0
    fail "$@"
}

folder=$esp/EFI/pmuvisor/bench
[ -d "$folder" ] ||
    no_results "'$folder' is not there; was it installed? make install ESP=$esp BENCH=auto"
top=$(cd "$(dirname "$0")/.." && pwd)
"$top/testbed/deps.sh" bench
# shellcheck disable=SC2034 # measurements.sh reads it
measurements_top=$top
# shellcheck source=bench/measurements.sh
. "$top/bench/measurements.sh"
# shellcheck source=metal/auto/jobs.sh
. "$top/metal/auto/jobs.sh"
mapfile -t jobs < <(metal_jobs)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# python MODULE ...: runs a module of this tree as a program.
python() {
    PYTHONPATH=$top /usr/bin/python3 -B -m "$@"
}

# whole FILE: the last line has the sum of those before (metal/auto/auto.sh).
whole() {
    [ -s "$1" ] || return 1
    local last sum
    last=$(tail -n 1 "$1")
    sum=$(sed '$d' "$1" | md5sum)
    [ "$last" = "check: md5=${sum%% *}" ]
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

# A column of which only some jobs are there, in the form of a whole one.
from_jobs() { # from_jobs COLUMN
    local job found=0
    whole "$folder/$1/facts.txt" || return 1
    sed '$d' "$folder/$1/facts.txt"
    for job in "${jobs[@]}"; do
        if whole "$folder/$1/$job.txt"; then
            found=1
            sed '$d' "$folder/$1/$job.txt"
        else
            echo "bench: experiment=$job item=all skip=\"$(why_not "$1")\""
        fi
    done
    echo "end: column=$1 status=0"
    [ $found -eq 1 ]
}

files=() missing=() partial=()
for column in $(column_names); do
    if whole "$folder/$column.txt"; then
        cp "$folder/$column.txt" "$work/"
        files+=("$work/$column.txt")
    elif from_jobs "$column" > "$work/$column.txt"; then
        files+=("$work/$column.txt")
        partial+=("$column")
    else
        rm "$work/$column.txt"
        missing+=("$column")
    fi
done
[ ${#files[@]} -gt 0 ] || no_results "no column in '$folder' has results yet"
[ ${#partial[@]} -eq 0 ] || echo "collect.sh: not all jobs are done yet of: ${partial[*]}" >&2
for column in "${missing[@]}"; do
    {
        grep '^env: ' "${files[0]}" | grep -v '^env: \(column\|kvm\|date\|options\)='
        echo "env: column=\"$column\""
        echo "end: column=$column status=1 why=\"$(why_not "$column")\""
    } > "$work/$column.txt"
    files+=("$work/$column.txt")
done

# Parts of a column were measured in boots of their own: they go before the line that ends it.
missing_parts=()
for part in $(part_names); do
    whole_column=$work/$(column_of "$part").txt
    grep -q '^end: .* status=0' "$whole_column" || continue
    if whole "$folder/$part/exit.txt"; then
        {
            sed '/^end: /,$d' "$whole_column"
            sed '/^bench: experiment=\(ablation\|machine\) /!d' "$folder/$part/exit.txt"
            grep '^end: ' "$whole_column"
        } > "$work/parts"
        mv "$work/parts" "$whole_column"
    else
        missing_parts+=("$(variant_of "$part")")
    fi
done
[ ${#missing_parts[@]} -eq 0 ] ||
    echo "collect.sh: no results yet of the ablation's parts: ${missing_parts[*]}" >&2

# What is in OUT stays until there is something to take its place.
status=0
said=$(python bench.run --out "$work/out" --import "${files[@]}") || status=$?
# Its last lines are about files that are yet to be moved.
printf '%s\n' "$said" | sed "s|[^ ]*$work/out/|$out/|; s|[^ ]*$work/||"
[ -s "$work/out/results.json" ] || fail "no results were made (see above)"
python bench.report --out "$work/out/report.html" "$work/out/results.json" |
    sed "s|[^ ]*$work/out/|$out/|"
mkdir -p "$out"
mv "$work/out/results.json" "$work/out/report.html" "$out/"
# One complaint of each column that is missing is no error: the others have not been measured yet.
complaints=$(grep -c "^bench: $work/" <<< "$said") || true
[ "$status" -ne 1 ] || [ "$complaints" -ne ${#missing[@]} ] || status=0
exit "$status"
