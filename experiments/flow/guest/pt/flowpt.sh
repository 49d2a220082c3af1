#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# flowpt.sh: the job `flowpt`: the job flowtruth while perf records Intel PT of the kernel on all
# processors, without branches: what is left are loads of CR3 with their times. Hands over what perf
# has. Run by busybox sh in the guest. Linux, tools/perf/Documentation/perf-intel-pt.txt: the terms
# `pt` and `branch`.
set -u
export job=flowpt
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

data=/tmp/pt.data
perf record -N -B -a -m ,1024 -o $data -e intel_pt/pt,branch=0,mtc,mtc_period=3,cyc/k \
    /jobs/flowtruth > /tmp/pt.log 2>&1 ||
    give_up "$(tail -n 1 /tmp/pt.log)"
grep '^flowtruth:' /tmp/pt.log
for name in tsc_art_ratio max_nonturbo_ratio; do
    echo "flowpt: name=$name value=$(cat "/sys/bus/event_source/devices/intel_pt/$name")"
done
echo "flowpt: bytes=$(wc -c < $data)"
/traced hand $data pt.data
