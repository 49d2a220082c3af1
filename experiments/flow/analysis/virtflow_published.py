# SPDX-License-Identifier: BSD-2-Clause
# virtflow_published.py: figures that others have published of execution flow from exits, as in
# their text, with machine and source. Data only.
PAPER = {
    "name": "virtFlow",
    "source": "H. Nemati and M. R. Dagenais, virtFlow: Guest Independent Execution Flow Analysis "
    "Across Virtualized Environments, IEEE Transactions on Cloud Computing 8(3), 2020, "
    "sections V and VI",
    "machine": "QEMU 2.5 and KVM of Linux 4.2 (its Table II); LTTng on the host",
}
# Table III: event, method.
TABLE_3 = {
    "sched_switch": "tracepoint",
    "sched_wakeup": "tracepoint",
    "kvm_exit": "tracepoint",
    "kvm_entry": "tracepoint",
    "vcpu_enter_guest": "kprobe",
}
# Table VI: utilization of a program that computes, in percent.
TABLE_6 = {"Nested-Linux": 98.5, "VM-Linux": 99.6}
# Table VII: overhead in percent of tracing all levels, both hypervisors, and of the paper's way
# (NSD).
TABLE_7 = {
    "File I/O": (48.2, 41.5, 34.6),
    "Net I/O": (28.65, 6.72, 3.98),
    "Memory": (1.6, 1.2, 1),
    "CPU": (4.9, 1.8, 1.4),
}
# Section V-B: sched_switch inside the guest.
SCHED_SWITCH_PERCENT = 3
