#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pebs_host.sh: the host samples itself precisely while its KVM runs a guest: the job kvm's word
# pmv.kvm_around=pebs_host calls it before (`begin`) and after (`end`). Prints how many records the
# host has. With pmv.pebs_host=hold it counts stores instead, by an event that Linux has on general
# counters 0 to 3 alone. So the guest's counter is another one of the processor's.
set -u
data=/tmp/host.data

case $1 in
    begin)
        if echo "$(cat /proc/cmdline) ${PMV_WORDS:-}" | grep -q pmv.pebs_host=hold; then
            # D: pinned to its counter.
            held=cpu/event=0xd0,umask=0x82/D
            perf stat -C 0 -e $held,$held,$held,$held -o /tmp/host.stat > /tmp/host.log 2>&1 &
        else
            # H: the host alone, which leaves the guest's own counter to the guest.
            perf record -N -a -o $data -e cpu/event=0xc0/ppH -c 100003 > /tmp/host.log 2>&1 &
        fi
        echo $! > /tmp/host.pid
        sleep 1
        ;;
    end)
        perf=/proc/$(cat /tmp/host.pid)
        kill -INT "${perf##*/}"
        # Nobody may reap it: its parent has ended.
        while [ -d "$perf" ] && ! grep -q '^State:.*Z' "$perf/status"; do sleep 1; done
        echo "pebs_host: records=$(perf script -i $data -F ip 2> /tmp/host.log | grep -c .)"
        awk '$2 ~ /^cpu/ && $1 ~ /^[0-9]/ { gsub(",", "", $1); print "pebs_host: stores=" $1 }' \
            /tmp/host.stat 2> /dev/null
        ;;
esac
