#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sysbench.sh: the job `sysbench`: the load of paper 002's S3 to S6 (section V.C): Debian's
# sysbench finds the first 1000 primes, again and again, with a pause after each run. The pause is
# 600 ms in the first nested machine, 1 s in another one, and 800 ms in a machine that is none; a
# run takes 327 ms there. Here pauses are an eighth. The machines begin at the same time, by
# the clock that KVM gives them. Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.machine=             which machine this is (programs/payload/kvm.c)
#   pmv.sysbench_runs=20     runs
#   pmv.sysbench_events=1000 events of sysbench in each: so often it looks for the primes
#   pmv.sysbench_second=8    the first run begins at the next multiple of so many seconds
job=sysbench
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

shrunk=8
runs=$(whole pmv.sysbench_runs 20) || exit 1
events=$(whole pmv.sysbench_events 1000) || exit 1
second=$(whole pmv.sysbench_second 8) || exit 1
case $(word pmv.machine '') in
    1.1) pause_ms=600 ;;
    *.*) pause_ms=1000 ;;
    *) pause_ms=800 ;;
esac

# shellcheck disable=SC3028 # busybox sh has it
now_us() {
    echo "$EPOCHREALTIME" | tr -d .
}

/jobs/ktrace time
usleep $((second * 1000000 - $(now_us) % (second * 1000000)))
found=
for _ in $(seq "$runs"); do
    begin=$(now_us)
    sysbench cpu --cpu-max-prime=1000 --time=0 --events="$events" --threads=1 run > /tmp/out ||
        give_up "$(tail -n 1 /tmp/out)"
    found="$found $begin-$(now_us)"
    usleep $((pause_ms * 1000 / shrunk))
done
/jobs/ktrace time
# At the end: each character is an exit.
for run in $found; do
    echo "sysbench: begin_us=${run%-*} end_us=${run#*-}"
done
