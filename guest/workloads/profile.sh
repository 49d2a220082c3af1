#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# profile.sh: the job `profile`, the measurement `profile` (thesis, section 4.3.1, Listing 2, Tables
# 4.4 and 4.5): run time of a workload of known shares, alone and under perf record with call
# chains, and the share that perf report gives to each function. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.iter=300000000       ITER of Listing 2; 100000000 in the thesis, with a third of the samples
#   pmv.period=CYCLES        one sample every so many cycles, instead of
#   pmv.freq=4000            so many samples a second
#   pmv.profile_runs=5       how often each is run and timed; the first run is the marked one
#   pmv.profile_items=plain,profiled
# perf's own limits stay as they are; what they were at the end, and whether they were met, is said.
job=profile
# shellcheck source=guest/workloads/common.sh
. /workloads/common.sh

region_plain=2320
region_profiled=2321
samples_wanted=20000
data=/tmp/profile.data
report=/tmp/profile.report
stats=/tmp/profile.stats
log=/tmp/profile.log

iter=$(whole pmv.iter 300000000) || exit 1
runs=$(whole pmv.profile_runs 5) || exit 1
if [ -n "$(word pmv.period '')" ]; then
    period=$(whole pmv.period 1) || exit 1
    sampling="-c $period"
else
    frequency=$(whole pmv.freq 4000) || exit 1
    sampling="-F $frequency"
fi

# Runs the command with the workload behind it $runs times, and says what the item's region and its
# times are. The region and the times are the workload's own: see listing2.c.
timed() { # timed ITEM REGION [COMMAND...]
    timed_item=$1 timed_region=$2 mark=$2 run=0
    times=/tmp/$timed_item.times
    shift 2
    : > "$times"
    while [ "$run" -lt "$runs" ]; do
        "$@" /listing2 "$iter" "$mark" > "$log" 2>&1 || give_up "$(tail -n 1 "$log")"
        sed -n 's/^listing2: ns=//p' "$log" >> "$times"
        mark=0
        run=$((run + 1))
    done
    say "$timed_item" "region=$timed_region ops=1 metric=time unit=ns $(distribution "$times")"
    value "$timed_item" iter count "$iter"
}

plain() {
    timed plain $region_plain
}

# Shares with callees, in percent, of the functions of Listing 2.
profiled() {
    hide_kernel_symbols
    # shellcheck disable=SC2086 # two words
    timed profiled $region_profiled perf record -g -e cycles:u $sampling -o $data --
    sed 's/^/profile-record: /' $log
    # A newer perf would take the function a for the C++ name of "signed char".
    perf report -i $data --stdio --no-demangle --children -g none --percent-limit 0 \
        -F overhead_children,overhead,sample,symbol > $report 2>&1 || give_up "$(tail -n 1 $report)"
    perf report -i $data --stats > $stats 2>&1 || give_up "$(tail -n 1 $stats)"
    sed 's/^/profile-report: /' $report
    sed 's/^/profile-stats: /' $stats
    samples=$(events $stats SAMPLE)
    [ "$samples" -ge $samples_wanted ] ||
        echo "$job: note=\"$samples samples, $samples_wanted wanted: raise pmv.iter=$iter\""
    value profiled samples count "$samples"
    value profiled throttled count "$(events $stats THROTTLE)"
    value profiled lost count "$(events $stats LOST_SAMPLES)"
    value profiled max_sample_rate count "$(sample_rate)"
    for function in main a aa b bb bbb c; do
        share=$(awk -v name=$function '$5 == name { sub("%", "", $1); print $1; exit }' $report)
        [ -n "$share" ] || give_up "perf report has no function $function"
        value share_$function share percent "$share"
    done
}

for item in $(word pmv.profile_items plain,profiled | tr ',' ' '); do
    case $item in
        plain | profiled) $item ;;
        *) give_up "pmv.profile_items: found '$item', wanted plain or profiled" ;;
    esac
done
