#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# latency.sh: the job `latency`: what ftrace's hwlat and osnoise find of time that the hardware
# takes. The kernel's word pmv.threshold= is in microseconds. hwlat polls the TSC with interrupts
# off, and reports each gap above the threshold; osnoise counts gaps that no interrupt, NMI or
# thread explains. Run by busybox sh as the guest's root. Linux,
# Documentation/trace/hwlat_detector.rst, osnoise-tracer.rst.
PATH=/bin
export PATH
# shellcheck disable=SC2034 # for common.sh
job=latency
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh
tracing=/sys/kernel/tracing
threshold=$(word pmv.threshold 10)

mount -t tracefs tracefs $tracing || exit 1
cd $tracing || exit 1
echo 0 > /proc/sys/kernel/nmi_watchdog
echo "$threshold" > tracing_thresh
echo hwlat > current_tracer || exit 1
# Microseconds: of each window the width is polled.
echo 1000000 > hwlat_detector/window
echo 900000 > hwlat_detector/width
sleep 3
echo 0 > tracing_on
echo "latency: tracer=hwlat threshold=$threshold gaps=$(grep -c 'inner/outer' trace)"
echo nop > current_tracer
echo 1 > tracing_on

echo osnoise > current_tracer || exit 1
sleep 4
echo 0 > tracing_on
# ... RUNTIME NOISE PERCENT MAXIMUM HW NMI IRQ SIRQ THREAD
grep -v '^#' trace | awk '{ hardware += $(NF - 4); nmis += $(NF - 3) } END {
    printf "latency: tracer=osnoise samples=%d hardware=%d nmis=%d\n", (NR > 0), hardware, nmis }'
echo nop > current_tracer
