#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=dash
# measure.sh EXPERIMENT: one experiment of programs/measure/ in this kernel, by the module
# pmuvisor_measure; its lines on stdout, and status 0 when nothing failed. Kernel command line:
# pmv.runs=, pmv.operations= (default: as the module has them).
set -u

runs=0 operations=0
# shellcheck disable=SC2013 # words
for word in $(cat /proc/cmdline) ${PMV_WORDS:-}; do
    case $word in
        pmv.runs=*) runs=${word#*=} ;;
        pmv.operations=*) operations=${word#*=} ;;
    esac
done
# Nobody else may have the counters and NMIs meanwhile.
watchdog=$(cat /proc/sys/kernel/nmi_watchdog 2> /dev/null)
[ "${watchdog:-0}" = 0 ] || echo 0 > /proc/sys/kernel/nmi_watchdog
[ -e /proc/pmuvisor_measure ] || insmod /lib/modules/pmuvisor_measure.ko || exit 1
status=0
echo "$1 $runs $operations" > /proc/pmuvisor_measure || status=1
cat /proc/pmuvisor_measure
grep -q '^measure: experiment=[a-z0-9]* failures=0 stray_nmis=0$' /proc/pmuvisor_measure || status=1
[ "${watchdog:-0}" = 0 ] || echo "$watchdog" > /proc/sys/kernel/nmi_watchdog
exit "$status"
