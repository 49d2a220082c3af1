#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pt.sh: the job `pt`: Debian's own perf traces /traced by Intel PT, decodes what it has recorded,
# and hands both over. Run by busybox sh in the guest.
#
# Words of the kernel's command line:
#   pmv.pt=CASE,...    user, kernel, both, noretcomp, cyc, small (a buffer that fills), each (all
#                      processors), exec (the same by processes of its own that are started there);
#                      default user
#   pmv.rounds=20      of /traced
set -u
export job=pt
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

devices=/sys/bus/event_source/devices/intel_pt
log=/tmp/pt.log
data=/tmp/pt.data
list=/tmp/pt.list
stat=/tmp/pt.stat
rounds=$(whole pmv.rounds 20) || exit 1

[ -e $devices/type ] || give_up "no intel_pt: $(dmesg | grep -i 'pt:' | tail -n 1)"
for capability in "$devices"/caps/*; do
    echo "pt: capability=${capability##*/} value=$(cat "$capability")"
done

pmis() {
    awk '$1 == "PMI:" { print $2 }' /proc/interrupts
}

# One `perf record` of /traced in a region, and its branches as perf decodes them.
what=work fields=event,ip,addr
try() { # try NAME REGION RECORD...
    name=$1 region=$2
    shift 2
    before=$(pmis)
    perf record -N -B -o $data "$@" /traced $what "$region" "$rounds" > $log 2>&1 ||
        give_up "$name: $(tail -n 1 $log)"
    after=$(pmis)
    grep '^pt:' $log
    perf stat -x , -o $stat -e instructions:u perf script -i $data --itrace=be -F $fields > $list \
        2> $log ||
        give_up "$name: $(tail -n 1 $log)"
    errors=$(grep -c 'instruction trace error' $log)
    echo "pt: case=$name branches=$(grep -c . $list) errors=$errors pmis=$((after - before))" \
        "bytes=$(wc -c < $data) decoding=$(grep instructions $stat | cut -d , -f 1)"
    [ "$errors" = 0 ] || echo "pt: case=$name error=\"$(grep -m 1 'trace error' $log)\""
    /traced hand $data "$name.data"
    /traced hand $list "$name.list"
}

# What all cases are compared with: the same work, not traced.
/traced work 3308 "$rounds" > $log || give_up "untraced: $(tail -n 1 $log)"
for case in $(word pmv.pt user | tr ',' ' '); do
    case $case in
        user) try user 3300 -e intel_pt//u ;;
        kernel) try kernel 3301 -e intel_pt//k ;;
        both) try both 3302 -e intel_pt// ;;
        noretcomp) try noretcomp 3303 -e intel_pt/noretcomp/u ;;
        cyc) try cyc 3304 -e intel_pt/cyc/u ;;
        each)
            what=each fields=cpu,event,ip,addr
            try each 3306 -a -m ,512 -e intel_pt//u
            what=work fields=event,ip,addr
            ;;
        exec)
            what=exec fields=cpu,event,ip,addr
            try exec 3307 -m ,512 -e intel_pt//u
            what=work fields=event,ip,addr
            ;;
        small) try small 3305 -m ,8 -e intel_pt//u ;;
        *) give_up "pmv.pt: $case" ;;
    esac
done
