# SPDX-License-Identifier: BSD-2-Clause
# seen_by_host.py: a run under a hypervisor as the paper's module has it: each exit with its reason,
# RIP and CR3, and the entry after it, with its SP. The module reads them from the VMCS; here they
# are of the emulator's own list (the knob flow_log). Times are the guest's TSC. For a machine of
# one processor.
import collections

from experiments.flow.analysis.exit_reasons import EXTERNAL_INTERRUPT, HLT
from experiments.flow.analysis.levels import Vcpu
from experiments.flow.analysis.trace_source import TRACE_EXITS, Source
from experiments.shared.analysis.records import Record

REASON = 0xFFFF
TSC = (1 << 64) - 1

# Outside root mode, from an entry to the next exit; `vector`: of the first interrupt in it.
Stay = collections.namedtuple(
    "Stay", "start end reason rip cr3 entry_rip entry_cr3 vector entry_rsp eptp"
)


def guest_time(events):
    """Takes the events of flow_log.py; gives them with the guest's TSC, from the first VM entry
    on."""
    offset, entered = 0, False
    for event in events:
        if event.kind == "offset":
            offset = event.value
        entered = entered or event.kind == "entry"
        if entered and event.kind != "offset":
            yield event._replace(tsc=event.tsc + offset & TSC)


def stays(events):
    """Takes events in the guest's time; gives the Stays, the last one only where it has an end."""
    entry, vector = None, 0
    for event in events:
        if event.kind == "entry":
            entry, vector = event, 0
        elif event.kind == "interrupt":
            vector = vector or event.value
        elif event.kind == "exit" and entry is not None:
            yield Stay(
                entry.tsc,
                event.tsc,
                event.value & REASON,
                event.rip,
                event.cr3,
                entry.rip,
                entry.cr3,
                vector,
                entry.rsp,
                event.eptp,
            )
            entry = None


def levels_of(found):
    """Takes Stays; gives the level of virtualization of each, as levels.py tells them."""
    vcpu = Vcpu()
    for stay in found:
        vcpu.entry(stay.start, stay.entry_cr3, stay.entry_rip)
        vcpu.exit(stay.end, stay.reason, stay.rip)
    return [run.level for run in vcpu.runs]


def of_level(found, level):
    """Takes Stays; gives those of one level of virtualization. What is between them, the
    hypervisors below too, is not their time."""
    return [stay for stay, of in zip(found, levels_of(found)) if of == level]


def source(found, tsc_khz=0):
    """Takes Stays; gives the Source of what the module writes. As in kvm_trace.py, idle time ends
    in a record of an interrupt."""
    records = []
    for stay, after in zip(found, found[1:]):
        halts = stay.reason == HLT
        records.append(
            Record(
                stay.end,
                stay.rip,
                stay.cr3,
                stay.reason,
                0,
                0 if halts else after.vector,
                0 if halts else after.start - stay.end,
            )
        )
        if halts:
            records.append(
                Record(after.start, stay.rip, stay.cr3, EXTERNAL_INTERRUPT, 0, after.vector, 0)
            )
    return Source(tsc_khz=tsc_khz, level=TRACE_EXITS, processors={0: records})


def tables(events, key):
    """Takes events in the guest's time and the function from CR3 to a process's key. Gives [(start,
    end, key)]: whose table was loaded, by the loads and by what entries and exits show."""
    found, since, now = [], 0, None
    for event in events:
        loaded = key(event.value if event.kind == "cr3" else event.cr3)
        if loaded != now:
            if now is not None:
                found.append((since, event.tsc, now))
            since, now = event.tsc, loaded
    return found
