#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The outer system's init: starts QEMU under this kernel's KVM by the project's own run-qemu.sh,
# says how it ended and what the kernel complained of meanwhile, and turns the machine off. The word
# pmv.cpus of the command line: the processors of QEMU's machine.
export PATH=/usr/bin:/bin TMPDIR=/tmp

word() { # word NAME: of the command line
    tr ' ' '\n' < /proc/cmdline | sed -n "s/^pmv\.$1=//p"
}

mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
exec < /dev/console > /dev/console 2>&1
dmesg -c > /dev/null
insmod /lib/modules/irqbypass.ko
insmod /lib/modules/kvm.ko halt_poll_ns=0
insmod /lib/modules/kvm-intel.ko nested=1 enable_apicv=0
echo 0 > /proc/sys/kernel/nmi_watchdog
echo "outer: release=$(uname -r) nested=$(cat /sys/module/kvm_intel/parameters/nested)"
cp /pmuvisor/grub.img /tmp/grub.img
/pmuvisor/run-qemu.sh --backend kvm --disk /tmp/grub.img --cpus "$(word cpus)" --memory 512 \
    --timeout 100000 --qemu "-drive file=/dev/sda3,format=raw,if=ide,cache.direct=on"
echo "outer: status=$?"
# What is worse than a notice.
dmesg -r | grep '^<[0-4]>' | sed 's/^/outer: log /'
echo "outer: end"
poweroff -f
