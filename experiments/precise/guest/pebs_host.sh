#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pebs_host.sh: the host samples itself precisely while its KVM runs a guest: the job kvm's word
# pmv.kvm_around=pebs_host calls it before (`begin`) and after (`end`). Prints how many records the
# host has.
set -u
data=/tmp/host.data

case $1 in
    begin)
        # H: the host alone, which leaves the guest's own counter to the guest.
        perf record -N -a -o $data -e cpu/event=0xc0/ppH -c 100003 > /tmp/host.log 2>&1 &
        echo $! > /tmp/host.pid
        sleep 1
        ;;
    end)
        perf=/proc/$(cat /tmp/host.pid)
        kill -INT "${perf##*/}"
        # Nobody may reap it: its parent has ended.
        while [ -d "$perf" ] && ! grep -q '^State:.*Z' "$perf/status"; do sleep 1; done
        echo "pebs_host: records=$(perf script -i $data -F ip 2> /tmp/host.log | grep -c .)"
        ;;
esac
