#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The outer system's init: starts QEMU under this kernel's KVM by the project's own run-qemu.sh,
# says how it ended and what the kernel complained of meanwhile, and turns the machine off. Words of
# the command line: pmv.cpus, the processors of QEMU's machine; pmv.ktrace=1, this kernel's trace of
# its KVM from the guest's first VMXON on, and between the CPUID leaves of the job `pair`;
# pmv.ktrace_probe, a kprobe event with a comma for each blank; pmv.exits=1, this kernel's counts of
# its KVM's exits.
# Linux, Documentation/trace/ftrace.rst, "Instances"; events.rst, "Event triggers".
export PATH=/usr/bin:/bin TMPDIR=/tmp

word() { # word NAME: of the command line
    tr ' ' '\n' < /proc/cmdline | sed -n "s/^pmv\.$1=//p"
}

tracefs=/sys/kernel/tracing
events='kvm/kvm_entry kvm/kvm_exit kvm/kvm_nested_vmenter kvm/kvm_nested_vmexit
    kvm/kvm_nested_vmexit_inject kvm/kvm_cpuid sched/sched_switch sched/sched_wakeup'

put() { # put FILE TEXT
    echo "$2" > "$1" || echo "ktrace: file=$1 text=\"$2\" error=1"
}

# ktrace NAME KIB EVENT TRIGGER...: an instance that TRIGGER of EVENT turns on; what does not fit is
# dropped
ktrace() {
    local at=$tracefs/instances/$1 event on=$3
    mkdir "$at"
    put "$at/tracing_on" 0
    put "$at/trace_clock" x86-tsc
    put "$at/options/overwrite" 0
    put "$at/buffer_size_kb" "$2"
    shift 3
    put "$at/events/kvm/kvm_cpuid/filter" 'function >= 0x70616972 && function <= 0x70616973'
    for event in $events; do
        put "$at/events/$event/enable" 1
    done
    for event; do
        put "$at/events/$on/trigger" "$event"
    done
}

ktrace_start() {
    local probe ends='if function == 0x70616973' event
    mount -t tracefs none $tracefs
    probe=$(word ktrace_probe | tr , ' ')
    if [ -n "$probe" ]; then
        put $tracefs/kprobe_events "$probe"
        probe=${probe#*:}
        events="$events kprobes/${probe%% *}"
    fi
    ktrace start 192 kvm/kvm_exit 'traceon if exit_reason == 27'
    local -a triggers=('traceon if function == 0x70616972')
    for event in ${events/kvm\/kvm_cpuid /}; do
        triggers+=("disable_event:${event/\//:} $ends")
    done
    ktrace pair 2048 kvm/kvm_cpuid "${triggers[@]}"
}

ktrace_print() {
    local name
    for name in start pair; do
        put $tracefs/instances/$name/tracing_on 0
        echo "ktrace: begin name=$name"
        cat $tracefs/instances/$name/trace
        echo "ktrace: end"
    done
    # All of it has to be out before the machine is off.
    sleep 2
}

mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
exec < /dev/console > /dev/console 2>&1
dmesg -c > /dev/null
insmod /lib/modules/irqbypass.ko
insmod /lib/modules/kvm.ko halt_poll_ns=0
insmod /lib/modules/kvm-intel.ko nested=1
echo 0 > /proc/sys/kernel/nmi_watchdog
echo "outer: release=$(uname -r) nested=$(cat /sys/module/kvm_intel/parameters/nested)"
cp /pmuvisor/grub.img /tmp/grub.img
[ "$(word ktrace)" != 1 ] || ktrace_start
run=(/pmuvisor/run-qemu.sh)
if [ "$(word exits)" = 1 ]; then
    mount -t tracefs none $tracefs
    mount -t debugfs none /sys/kernel/debug
    run=(/pmuvisor/kvm_exits.sh /tmp/exits "${run[@]}")
fi
"${run[@]}" --backend kvm --disk /tmp/grub.img --cpus "$(word cpus)" --memory 512 \
    --timeout 100000 --qemu "-drive file=/dev/sda3,format=raw,if=ide,cache.direct=on"
echo "outer: status=$?"
[ ! -e /tmp/exits ] || sed 's/^/exits: /' /tmp/exits
[ "$(word ktrace)" != 1 ] || ktrace_print
# What is worse than a notice.
dmesg -r | grep '^<[0-4]>' | sed 's/^/outer: log /'
echo "outer: end"
poweroff -f
