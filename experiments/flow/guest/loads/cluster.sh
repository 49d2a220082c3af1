#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cluster.sh: the job `cluster`: the load of paper 002's S1 and S2 (section V.C, Table IV), with
# Debian's programs in place of Hadoop's. Machine 1 is the master, which waits; each other one is
# a slave, whose eight tasks compute digits of pi (busybox bc). Machine 3, the paper's VM-Slave 2,
# has a ninth busy process. The slaves begin at the same time, by the clock that KVM gives them.
# Run by busybox sh in the guest.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.machine=             which machine this is (programs/payload/kvm.c)
#   pmv.cluster_tasks=8      tasks of a slave
#   pmv.cluster_digits=150   digits of each task
#   pmv.cluster_second=8     the tasks begin at the next multiple of so many seconds
job=cluster
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

master=1
with_another=3
machine=$(word pmv.machine '')
tasks=$(whole pmv.cluster_tasks 8) || exit 1
digits=$(whole pmv.cluster_digits 150) || exit 1
second=$(whole pmv.cluster_second 8) || exit 1

# shellcheck disable=SC3028 # busybox sh has it
now_us() {
    echo "$EPOCHREALTIME" | tr -d .
}

if [ "$machine" = $master ]; then
    sleep "$second"
    exit 0
fi
/jobs/ktrace time
usleep $((second * 1000000 - $(now_us) % (second * 1000000)))
other=
if [ "$machine" = $with_another ]; then
    (while :; do :; done) &
    other=$!
fi
begin=$(now_us)
pids=
for _ in $(seq "$tasks"); do
    echo "scale=$digits; 4 * a(1)" | bc -l > /dev/null &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || give_up "bc has failed"
done
end=$(now_us)
[ -z "$other" ] || kill "$other"
/jobs/ktrace time
echo "cluster: begin_us=$begin end_us=$end"
