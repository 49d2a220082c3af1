#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# multiplex.sh: the job `multiplex`: perf stat with three times as many events as there are general
# counters, so that Linux lets them take turns and scales what they counted. The load has phases, so
# that a scaled count depends on whose turn it was when; the runs begin at different offsets of the
# turns. Before, the same events in groups that fit: what they would count alone. Run by busybox sh.
# A turn is one millisecond, the least that Linux has, and the load is some thousand of them: a
# scaled count is off by a part of a turn for each change of phase. Prints "multiplex: run=OFFSET
# event=NAME count=COUNT running=PERCENT"; the offset "alone" is the runs in groups. All events are
# of user mode.
PATH=/bin:/usr/bin
export PATH
output=/tmp/multiplex
first=branches:u,branch-misses:u,L1-dcache-loads:u,L1-dcache-stores:u
# BR_INST_RETIRED.CONDITIONAL, .NEAR_CALL, .NEAR_RETURN, .NOT_TAKEN: perf's events of Skylake-X
second=cpu/event=0xc4,umask=0x1,name=conditional/u,cpu/event=0xc4,umask=0x2,name=call/u
second=$second,cpu/event=0xc4,umask=0x8,name=return/u,cpu/event=0xc4,umask=0x10,name=not_taken/u
third=L1-dcache-load-misses:u,cache-references:u,LLC-loads:u,branch-loads:u

# Phases: a loop, sums over a file, copies, many small steps of a shell.
load() {
    echo "dd if=/dev/zero of=/dev/null bs=1 count=$1 2> /dev/null; /listing2 1000000 0 > /dev/null;
        md5sum /bin/busybox > /dev/null; /listing2 500000 0 > /dev/null;
        head -c 500000 /bin/busybox | gzip -c > /dev/null; sort /tmp/lines > /dev/null;
        /listing2 1000000 0 > /dev/null"
}

measure() { # measure OFFSET NAME EVENTS
    perf stat -x ';' -o $output -e "$3" sh -c "$(load "$1")" || exit 1
    awk -F ';' -v run="$2" 'NF > 4 { sub(/:u$/, "", $3)
        print "multiplex: run=" run " event=" $3 " count=" $1 " running=" $5 }' $output
}

[ -c /proc/kallsyms ] || mount -o bind /dev/null /proc/kallsyms
echo 1 > /sys/bus/event_source/devices/cpu/perf_event_mux_interval_ms
seq 1000 4000 | sed 's/\(.\)\(.*\)/\2\1/' > /tmp/lines
for events in $first $second $third; do
    measure 1 alone "$events"
done
for offset in 1 3000 6000 9000 12000; do
    measure $offset $offset "$first,$second,$third"
done
