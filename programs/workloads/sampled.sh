#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sampled.sh: the job `sampled`, the measurement `sampled`: Listing 2 alone, and while perf samples
# all processors by six and by ten events, as KVM's mediated vPMU was measured (bench/published.py,
# MEDIATED). Ten are more than there are counters, so they take turns. Run by busybox sh in the
# guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.sampled_iter=50000000  ITER of Listing 2
#   pmv.sampled_freq=1000      samples a second of each event
job=sampled
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/sampled.data
log=/tmp/sampled.log

iter=$(whole pmv.sampled_iter 50000000) || exit 1
frequency=$(whole pmv.sampled_freq 1000) || exit 1

# The region and the time are the workload's own: see listing2.c.
run() { # run ITEM REGION [COMMAND...]
    item=$1 region=$2
    shift 2
    "$@" /listing2 "$iter" "$region" > "$log" 2>&1 || give_up "$item: $(tail -n 1 "$log")"
    sed -n 's/^listing2: ns=//p' "$log" > /tmp/sampled.times
    say "$item" "region=$region ops=1 metric=time unit=ns $(distribution /tmp/sampled.times)"
}

sampled() { # sampled ITEM REGION EVENTS
    events=$(yes instructions | head -n "$3" | paste -s -d , -)
    run "$1" "$2" perf record -F "$frequency" -e "$events" -a --overwrite -o $data --
    perf report -i $data --stats > /tmp/sampled.stats 2>&1 ||
        give_up "$(tail -n 1 /tmp/sampled.stats)"
    value "$1" samples count "$(events /tmp/sampled.stats SAMPLE)"
}

hide_kernel_symbols
run plain 2350
sampled six 2351 6
sampled ten 2352 10
value plain iter count "$iter"
