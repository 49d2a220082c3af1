#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# memstores.sh: the job `memstores`: memtrace --stores samples the stores of the program `matrix`,
# and the samples are printed as perf script has them. Run by busybox sh in the guest, with perf in
# it.
set -u
export job=memstores
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/stores.data
list=/tmp/stores.list
hide_kernel_symbols
/jobs/memtrace --stores 101 -o $data -- /jobs/matrix || give_up "memtrace: it failed"
perf script -i $data --ns -F time,event,addr,ip > $list || give_up "perf script: it failed"
sed 's/^/sample: /' $list
