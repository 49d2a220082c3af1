#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# overcommit.sh: the program `overcommit`, for the job kvm's word pmv.kvm_around=: ktrace, on a
# host with too little memory (paper 002, section V.D): a cgroup has all machines and the program
# that takes memory on the host. What is more than the cgroup's limit goes to compressed memory
# (zram). Run by busybox sh in the guest. Linux, Documentation/admin-guide/cgroup-v2.rst,
# blockdev/zram.rst.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.overcommit_mib=320   the limit: the paper's 32 GB, as its 25 GB are 250 MiB here
job=overcommit
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh

swap_mib=1024
group=/tmp/group/machines

if [ "$1" = begin ]; then
    limit=$(whole pmv.overcommit_mib 320) || exit 1
    while read -r module; do
        insmod "/lib/modules/$module.ko" || give_up "$module"
    done < /lib/modules/storage.order
    echo ${swap_mib}M > /sys/block/zram0/disksize || give_up "no zram"
    mkswap /dev/zram0 > /tmp/mkswap
    swapon /dev/zram0 || give_up "no swap on zram"
    # A large page is swapped as a whole.
    echo never > /sys/kernel/mm/transparent_hugepage/enabled
    mkdir /tmp/group
    mount -t cgroup2 cgroup2 /tmp/group || give_up "no cgroup2"
    echo +memory > /tmp/group/cgroup.subtree_control
    mkdir $group
    echo "${limit}M" > $group/memory.max || give_up "no limit"
    # The machines are children of init, which runs the job kvm.
    echo 1 > $group/cgroup.procs || give_up "init stays"
    echo $$ > $group/cgroup.procs
    /jobs/eatmem host &
    echo $! > /tmp/host
fi
if [ "$1" = end ]; then
    kill "$(cat /tmp/host)"
    awk '{ print "overcommit: " $1 "=" $2 }' $group/memory.stat |
        grep -E 'pgmajfault|pswp|pgsteal |refault_anon'
    awk '/^pswp/ { print "overcommit: " $1 "=" $2 }' /proc/vmstat
fi
exec /jobs/ktrace "$1"
