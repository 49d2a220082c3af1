#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prepare.sh: what rr wants of a machine: terminals for its tracees, files in memory, a loopback,
# and counters for all. Run by busybox sh as the guest's root, once, before the cases (tool.sh).
set -e
mkdir -p /dev/pts /dev/shm /tmp /rr/in
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
ifconfig lo 127.0.0.1 up
# rr wants 1 at most; Debian's own is 3.
echo 0 > /proc/sys/kernel/perf_event_paranoid
