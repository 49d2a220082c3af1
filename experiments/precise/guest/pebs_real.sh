#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pebs_real.sh: the job `pebs_real`: perf samples programs precisely whose shares nobody has chosen:
# Debian's gzip and glpsol, on the inputs of experiments/counters/guest/real/; and /br_other, which
# is br_instr.c with another constant. User mode, by instructions, and by branches where Linux does
# that precisely. Prints, for each program and event, what was lost, the digest of the addresses in
# order, and the records of each function. Run by busybox sh in the guest.
set -u
export job=pebs_real
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/pebs.data
list=/tmp/pebs.list
log=/tmp/pebs.log
# Of a general counter: in KVM's guest a fixed one has no records.
instructions=cpu/event=0xc0/upp
events=instructions
selected=$instructions

try() { # try NAME COMMAND...
    name=$1
    shift
    env -i HOME=/ LC_ALL=C PATH=/bin:/usr/bin perf record -N -o $data \
        -e $selected -c 10007 "$@" > /dev/null 2> $log ||
        give_up "$name: $(tail -n 1 $log)"
    perf script -i $data -F event,ip,sym,dso > $list 2> $log ||
        give_up "$name: $(tail -n 1 $log)"
    lost=$(perf report -i $data --stats 2> /dev/null |
        awk '/LOST|THROTTLE/ { n += $3 } END { print n + 0 }')
    for event in $events; do
        of=branches:upp:
        [ $event = branches ] || of=$instructions:
        echo "pebs: program=$name event=$event lost=$lost digest=$(
            awk -v of=$of '$1 == of { print $2 }' $list | md5sum | cut -c 1-16
        )"
        awk -v of=$of -v begin="pebs: program=$name event=$event" '
            $1 == of { n[$3 $4]++ }
            END { for (f in n) print begin " function=" f " records=" n[f] }' $list | sort
    done
}

# In this order: without a limit of time the rate cannot be set any more.
echo 1000000 > /proc/sys/kernel/perf_event_max_sample_rate
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
hide_kernel_symbols
if perf record -N -o $data -e branches:upp /br_other 1 > $log 2>&1; then
    events="instructions branches"
    selected=$instructions,branches:upp
else
    echo "pebs: refused=branches"
fi
try gzip /bin/gzip -c /real/in/text
try glpsol /usr/bin/glpsol --mincost /real/in/flow
try br_other /br_other 40000
