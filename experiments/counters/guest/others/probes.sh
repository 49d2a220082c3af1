#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# probes.sh: the job `bpfprobes`: bpftrace's uprobe on a CPUID counts by its registers, while the
# program that executes it (programs/situations/probes.c) has uprobes and kprobes of its own there.
# Run by busybox sh as the guest's root.
PATH=/bin:/usr/bin
export PATH
mount -t debugfs debugfs /sys/kernel/debug || exit 1
bpftrace -e 'uprobe:/jobs/probes:probed_cpuid { @cpuid[reg("ax"), reg("cx")] = count(); }' \
    -c /jobs/probes 2>&1 | grep -v '^$' | sed 's/^@/bpf: /'
