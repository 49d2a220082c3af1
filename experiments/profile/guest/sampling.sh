#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sampling.sh: the job `sampling`: Debian's own perf samples a load in several ways, in user mode alone, so
# that addresses are the same wherever the program runs. Hands over each list of samples. Run by busybox sh in
# the guest.
#
# Words of the kernel's command line:
#   pmv.sampling=nmi,...    ways: nmi, pebs, lbr (with the branch records), pt (Intel PT)
#   pmv.periods=211,...     instructions from sample to sample; each has its own run
#   pmv.load=listing2       or shorts: what is sampled
#   pmv.iter=5000           its rounds: ITER of Listing 2, 40 instructions each
set -u
export job=sampling
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/sampling.data
log=/tmp/sampling.log
list=/tmp/sampling.list
load=$(word pmv.load listing2)
iter=$(whole pmv.iter 5000) || exit 1
hide_kernel_symbols
# In this order: without a limit of time the rate cannot be set any more.
echo 10000000 > /proc/sys/kernel/perf_event_max_sample_rate
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent

region=3400
try() { # try NAME FIELDS OPTIONS_OF_SCRIPT RECORD...
    name=$1 fields=$2 script=$3
    shift 3
    perf record -N -B -o $data "$@" "/$load" "$iter" $region > $log 2>&1 || give_up "$name: $(tail -n 1 $log)"
    # shellcheck disable=SC2086 # no word, or one
    perf script -i $data $script -F "$fields" > $list 2> $log || give_up "$name: $(tail -n 1 $log)"
    lost=$(perf report -i $data --stats 2> /dev/null | awk '/LOST|THROTTLE/ { n += $3 } END { print n + 0 }')
    echo "sampling: way=$name region=$region records=$(grep -c . $list) lost=$lost" \
        "errors=$(grep -c 'trace error' $log)"
    /traced hand $list "$name.list"
    region=$((region + 1))
}

for period in $(word pmv.periods 211 | tr ',' ' '); do
    for way in $(word pmv.sampling nmi | tr ',' ' '); do
        case $way in
            nmi) try "nmi-$period" ip '' -e instructions:u -c "$period" ;;
            pebs) try "pebs-$period" ip '' -e instructions:uppp -c "$period" ;;
            lbr) try "lbr-$period" ip,brstack '' -b -e instructions:u -c "$period" ;;
            pt) try "pt-$period" ip "--itrace=i${period}i" -e intel_pt//u ;;
            *) give_up "pmv.sampling: $way" ;;
        esac
    done
done
