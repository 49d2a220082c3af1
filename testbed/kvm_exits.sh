#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs a command, and writes how many exits KVM on VMX took meanwhile, by reason. The kernel counts
# them in histograms: all exits, those from a guest of KVM's guest, and those that KVM passed on to
# its guest. `testbed/ledger.py --kvm FILE` prints them. Needs root, and a machine without other
# virtual machines, because the kernel counts the exits of all virtual machines.
# Linux, Documentation/trace/histogram.rst; ftrace.rst, "Instances".
# Usage: kvm_exits.sh FILE COMMAND ...   exit status: the command's
#        kvm_exits.sh --check            print why exits cannot be counted here, or nothing
set -euo pipefail

tracefs=${TRACEFS:-/sys/kernel/tracing}
machines=${KVM_DEBUGFS:-/sys/kernel/debug/kvm}
declare -A key=([kvm_exit]=exit_reason [kvm_nested_vmexit]=exit_reason
    [kvm_nested_vmexit_inject]=exit_code)

obstacle() {
    local event file
    for event in "${!key[@]}"; do
        file=$tracefs/events/kvm/$event/hist
        if ! cat "$file" > /dev/null 2>&1; then
            echo "cannot read $file; this needs root, tracefs and kvm_intel"
            return
        fi
    done
    if [ ! -r "$machines" ]; then
        echo "cannot read $machines, the list of virtual machines; this needs root and debugfs"
    elif compgen -G "$machines/[0-9]*-[0-9]*" > /dev/null; then
        echo "another virtual machine is running; its exits would be counted, too"
    fi
}

if [ "${1:-}" = --check ]; then
    obstacle
    exit
fi
[ $# -ge 2 ] || {
    sed -n '2,/^set/s/^# //p' "$0" >&2
    exit 2
}
file=$1
shift
reason=$(obstacle)
[ -z "$reason" ] || {
    echo "kvm_exits.sh: $reason" >&2
    exit 1
}
instance=$tracefs/instances/pmuvisor-$$
mkdir "$instance"
trap 'rmdir "$instance"' EXIT
for event in "${!key[@]}"; do
    echo "hist:keys=${key[$event]}" >> "$instance/events/kvm/$event/trigger"
done
status=0
"$@" || status=$?
for event in "${!key[@]}"; do
    echo "event $event"
    cat "$instance/events/kvm/$event/hist"
done > "$file"
exit $status
