#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prepare.sh: for tools of the platform: counters for all, none of them the watchdog's, registers as
# files, and Linux's drivers of energy and C-states, where it has them. Run by busybox sh as the
# guest's root.
echo -1 > /proc/sys/kernel/perf_event_paranoid
echo 0 > /proc/sys/kernel/nmi_watchdog
for module in msr rapl intel-cstate; do
    insmod /lib/modules/$module.ko 2> /dev/null || true
done
