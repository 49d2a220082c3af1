#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# profile.sh: the job `profile`, the measurement `profile` (thesis, section 4.3.1, Listing 2, Tables
# 4.4 and 4.5): run time of a workload of known shares, alone and under perf record with call
# chains, and the share that perf report gives to each function. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.iter=100000000       ITER of Listing 2, as in the thesis, where a run takes 1.92 s
#   pmv.period=CYCLES        one sample every so many cycles, instead of
#   pmv.freq=4000            so many samples a second
#   pmv.profile_runs=30      how often each is run, by turns; the first run is the marked one
#   pmv.profile_items=plain,profiled
# The samples of all runs together are to be 20,000 at least: they are where 30 runs take 5 seconds.
# perf's own limits stay as they are; what they were at the end, and whether they were met, is said.
job=profile
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

region_plain=2320
region_profiled=2321
samples_wanted=20000
data=/tmp/profile.data
report=/tmp/profile.report
stats=/tmp/profile.stats
log=/tmp/profile.log
functions='main a aa b bb bbb c'

iter=$(whole pmv.iter 100000000) || exit 1
runs=$(whole pmv.profile_runs 30) || exit 1
if [ -n "$(word pmv.period '')" ]; then
    period=$(whole pmv.period 1) || exit 1
    sampling="-c $period"
else
    frequency=$(whole pmv.freq 4000) || exit 1
    sampling="-F $frequency"
fi

# One run of the workload under the command, in the item's region if it is the first. The region and
# the time are the workload's own: see listing2.c.
workload() { # workload ITEM REGION [COMMAND...]
    times=/tmp/$1.times mark=0
    [ "$run" -gt 1 ] || mark=$2
    shift 2
    "$@" /listing2 "$iter" "$mark" > "$log" 2>&1 || give_up "$(tail -n 1 "$log")"
    sed -n 's/^listing2: ns=//p' "$log" >> "$times"
}

say_time() { # say_time ITEM REGION
    say "$1" "region=$2 ops=1 metric=time unit=ns $(distribution "/tmp/$1.times")"
    value "$1" iter count "$iter"
}

run_plain() {
    workload plain $region_plain
}

say_plain() {
    say_time plain $region_plain
}

# Leaves the last run's reports, and of each run its numbers: shares with callees, in percent, of
# the functions of Listing 2.
run_profiled() {
    hide_kernel_symbols
    # shellcheck disable=SC2086 # two words
    workload profiled $region_profiled perf record -g -e cycles:u $sampling -o $data --
    # A newer perf would take the function a for the C++ name of "signed char".
    perf report -i $data --stdio --no-demangle --children -g none --percent-limit 0 \
        -F overhead_children,overhead,sample,symbol > $report 2>&1 || give_up "$(tail -n 1 $report)"
    perf report -i $data --stats > $stats 2>&1 || give_up "$(tail -n 1 $stats)"
    events $stats SAMPLE >> /tmp/profiled.samples
    events $stats THROTTLE >> /tmp/profiled.throttled
    events $stats LOST_SAMPLES >> /tmp/profiled.lost
    for function in $functions; do
        share=$(awk -v name="$function" '$5 == name { sub("%", "", $1); print $1; exit }' $report)
        [ -n "$share" ] || give_up "perf report has no function $function"
        echo "$share" >> "/tmp/share.$function"
    done
}

say_profiled() {
    say_time profiled $region_profiled
    sed 's/^/profile-record: /' $log
    sed 's/^/profile-report: /' $report
    sed 's/^/profile-stats: /' $stats
    samples=$(total /tmp/profiled.samples)
    [ "$samples" -ge $samples_wanted ] ||
        echo "$job: note=\"$samples samples, $samples_wanted wanted: raise pmv.iter=$iter\""
    value profiled samples count "$samples"
    value profiled throttled count "$(total /tmp/profiled.throttled)"
    value profiled lost count "$(total /tmp/profiled.lost)"
    value profiled max_sample_rate count "$(sample_rate)"
    for function in $functions; do
        values "share_$function" share percent "/tmp/share.$function"
    done
}

items=$(word pmv.profile_items plain,profiled | tr ',' ' ')
for item in $items; do
    case $item in
        plain | profiled) ;;
        *) give_up "pmv.profile_items: found '$item', wanted plain or profiled" ;;
    esac
done
rm -f /tmp/*.times /tmp/profiled.* /tmp/share.*
# By turns, so that what changes slowly, such as the processor's frequency, changes for both.
run=0
while [ "$run" -lt "$runs" ]; do
    run=$((run + 1))
    for item in $items; do
        "run_$item"
    done
done
for item in $items; do
    "say_$item"
done
