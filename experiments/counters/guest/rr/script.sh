#!/bin/dash
# SPDX-License-Identifier: BSD-2-Clause
# script.sh: a shell script for rr: pipes, subshells, a loop, and a signal that it traps. Run by
# Debian's dash.
trap 'echo "script: trapped"' USR1
count=0
for word in one two three; do
    count=$((count + ${#word}))
done
echo "script: count $count"
kill -USR1 $$
seq 1 50 | awk '{ sum += $1 * NR } END { print "script: sum " sum }'
(
    echo "script: a subshell"
    exit 4
)
echo "script: status $?"
echo "varies: process $$"
