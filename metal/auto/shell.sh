#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=dash
# The job `shell`: program A.1 and the report, then a shell on the screen and on the serial line,
# for who has booted from a stick. The end of a shell is the machine's: a stick has no other system.
set -u

PATH=/bin:/sbin:/usr/bin:/usr/sbin
export PATH HOME=/

while read -r module; do
    insmod "/lib/modules/$module.ko" 2> /dev/null
done < /lib/modules/storage.order
insmod /lib/modules/msr.ko 2> /dev/null
/init a1 report > /tmp/report 2>&1
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts 2> /dev/null
dmesg -n 1

# With a terminal of its own, so that Ctrl-C ends a program and not the shell.
shell_on() { # shell_on TERMINAL
    setsid -c sh -c '
        cat /tmp/report
        echo "perf, busybox and, where it was built, pmuvisor-check are here;" \
            "exit or poweroff -f ends the machine, reboot -f restarts it."
        sh
        poweroff -f' < "/dev/$1" > "/dev/$1" 2>&1
}

for each in ttyS0 ttyS1; do
    # One without a UART cannot be set.
    if stty -F "/dev/$each" sane 2> /dev/null; then
        shell_on "$each" &
        break
    fi
done
[ ! -c /dev/tty1 ] || shell_on tty1
wait
