#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# mce.sh: the job `mce`: machine checks by Linux's mce-inject: corrected ones in software, and a
# fatal one by the processor's registers and INT 18, by which the kernel panics. Prints what the
# kernel's log says of each, without times. Run by busybox sh as the guest's root. Linux,
# arch/x86/kernel/cpu/mce/inject.c.
PATH=/bin
export PATH
inject=/sys/kernel/debug/mce-inject

insmod /lib/modules/mce-inject.ko && mount -t debugfs debugfs /sys/kernel/debug || exit 1
echo "mce: banks=$(find /sys/devices/system/machinecheck/machinecheck0/ -name 'bank*' | wc -l)"

inject() { # inject FLAGS BANK STATUS
    dmesg -c > /tmp/before
    echo 0 > $inject/cpu
    echo "$3" > $inject/status
    echo 0x1234000 > $inject/addr
    echo 0x86 > $inject/misc
    echo "$1" > $inject/flags
    echo "mce: flags=$1 bank=$2 status=$3"
    sleep 0.1
    if echo "$2" > $inject/bank; then
        echo "mce: injected=1"
    fi
    sleep 0.1
    dmesg | grep -i 'mce\|machine check' |
        sed 's/^\[[^]]*\] //; s/TIME [0-9]*//; s/TSC [0-9a-f]*//; s/^/mce: /'
}

# Corrected; then uncorrected, with the processor's context corrupt.
inject sw 0 0x9400000000000151
inject sw 3 0x9400000000000151
inject hw 1 0xb600000000000151
echo "mce: error=\"the kernel goes on\""
