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
# Table IV, seconds: done after, of the processor, preempted; by group of processors and slave.
TABLE_4 = {
    "DiffGrp": ((27.5, 46.832, 0.102), (35.6, 70.795, 0.104), (26.7, 49.144, 0.238)),
    "SameGrp": ((53.917, 55.971, 13.89), (53.328, 53.532, 13.47), (27.904, 54.756, 0.141)),
}
# Section V-C, figures 10 to 13: mean and deviation of a run in the first nested machine, ms.
LATENCY = {"S3": (327, 8), "S4": (465, 120), "S5": (453, 125), "S6": (651, 371)}
# Table V, by machine: EPT violations, and the percent of the time that they take.
TABLE_5 = ((3554, 17.8), (18801, 14.2), (15288, 10.6), (0, 0), (30, 0))
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
