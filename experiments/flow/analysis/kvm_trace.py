# SPDX-License-Identifier: BSD-2-Clause
# kvm_trace.py: a KVM host's trace, in the form of this hypervisor's own records, so that the same
# analyses read both; and the levels of virtualization in it (levels.py).
# Usage: python3 -m experiments.flow.analysis.kvm_trace TEXT [--khz N] [--trace FILE] [--json]
#   TEXT    the text of tracefs' `trace`, of `trace-cmd report` or of `perf script`; - is stdin
#   --khz   how fast the trace's clock is, where its times are counts (trace_clock x86-tsc)
#   --trace writes the records as flowtrace does (experiments/shared/guest/trace_file.h), for all
#           other tools
# timeline.md, "A KVM host's trace", says which events to record, and how.
import argparse
import collections
import json
import sys

from experiments.flow.analysis import identity, kvm_text, levels
from experiments.flow.analysis.exit_reasons import (
    CR_ACCESS,
    EXTERNAL_INTERRUPT,
    HLT,
    INTERRUPT_WINDOW,
)
from experiments.flow.analysis.exit_reasons import name as reason_name
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW, Record, Source
from experiments.shared.analysis import records
from experiments.shared.analysis.cr3 import PTI_USER_TABLE, TABLE_MASK

IO_INSTRUCTION, CPUID = 30, 10
INTERRUPTS = (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW)
WITH_STACK = (*INTERRUPTS, HLT, CR_ACCESS)
STACK_SHIFT, STACK_MASK = 12, (1 << 24) - 1  # trace_ring.h
ROOT_TIME_MAX = (1 << 32) - 1
RECORD_CR3_MASK = (1 << 48) - 1
NS_KHZ = 1_000_000
ENTERS = ("kvm_exit", "kvm_entry", "vcpu")
ENDS = ("kvm_exit", "kvm_entry", "sched_switch")
TRUTH = ("kvm_nested_vmenter", "kvm_nested_vmexit")


class Exit:
    """What is known of an exit until the next entry."""

    def __init__(self, event, cr3):
        self.time = event.time
        self.reason = event.fields["reason"]
        self.rip = event.fields.get("rip")
        self.info = event.fields.get("info1", 0)
        self.cr3 = cr3
        self.loaded = None  # what it loaded CR3 with
        self.leaf = 0
        self.vector = 0  # that the guest gets with the entry
        self.rsp = 0
        self.out = None  # when the thread slept, after HLT
        self.back = None  # and when it came back
        self.nested = False  # KVM's own word that it was its guest's guest that left

    def detail(self):
        """As trace_ring.h has it, of what the text tells; else 0."""
        if self.reason == CPUID:
            return self.leaf
        if self.reason == IO_INSTRUCTION:
            return self.info & 0xFFFF_FFFF
        if self.reason not in WITH_STACK:
            return 0
        # With page-table isolation Linux's way in has CR3 in RSP (SWITCH_TO_KERNEL_CR3).
        table = TABLE_MASK & ~PTI_USER_TABLE
        in_use = ((self.rsp ^ (self.cr3 or 0)) & table) == 0
        stack = 0 if in_use else self.rsp >> STACK_SHIFT & STACK_MASK
        return stack << 8 | (self.vector if self.reason in INTERRUPTS else 0)


class Thread:
    """The thread of one virtual processor."""

    def __init__(self, tid, mask):
        self.tid = tid
        self.number = 0  # the virtual processor's, in its machine
        self.levels = levels.Vcpu(mask)
        self.records = []
        self.exit = None  # the Exit that is handled
        self.truths = []  # of each run: KVM's own word, 2 or 1
        self.probe = {}  # of the probe right before this entry
        self.woken = 0  # records made of a wake-up from HLT
        self.gaps = {}  # place in records: events lost right before it
        self.cut = 0  # records that cannot hold their time in root mode

    def add(self, end):
        """Makes the record of the exit that ends with the entry at `end`."""
        exit_ = self.exit
        if exit_ is None:
            return
        self.exit = None
        self.truths.append(2 if exit_.nested else 1)
        cr3 = exit_.cr3 if exit_.loaded is None else exit_.loaded
        common = {"rip": exit_.rip or 0, "cr3": (cr3 or 0) & RECORD_CR3_MASK, "flags": 0}
        slept = exit_.out is not None and exit_.back is not None
        took = (exit_.out if slept else end) - exit_.time
        self.cut += took > ROOT_TIME_MAX
        self.records.append(
            Record(
                tsc=exit_.time,
                reason=exit_.reason,
                detail=exit_.detail(),
                root_time=min(took, ROOT_TIME_MAX),
                **common,
            )
        )
        if slept or exit_.reason == HLT and end > exit_.time:
            # The processor was idle until the interrupt, which trace=flow has as an exit. KVM may
            # have polled for it instead of sleeping: then that time is root mode's.
            self.woken += 1
            back = exit_.back if slept else end
            self.records.append(
                Record(
                    tsc=back,
                    reason=EXTERNAL_INTERRUPT,
                    detail=exit_.vector,
                    root_time=min(end - back, ROOT_TIME_MAX),
                    **common,
                )
            )

    def lose(self, count):
        """Events were lost: how the last exit ended is not known."""
        if self.exit is not None:
            self.add(self.exit.time)
        place = len(self.records)
        self.gaps[place] = self.gaps.get(place, 0) + count
        self.probe = {}


def known(probe, name):
    return probe[name] if probe.get(f"{name}_known") else None


class Host:
    """All virtual processors of a text."""

    def __init__(self, text, mask=TABLE_MASK):
        self.text = text
        self.threads = {}
        self.switches = False
        self.loads = 0  # exits that load CR3
        self.known = 0  # entries whose CR3 was known
        self.entries = 0
        for event in text.events:
            if event.name in ("kvm_exit", "kvm_entry") and event.tid not in self.threads:
                self.threads[event.tid] = Thread(event.tid, mask)
        gone = {}  # processor -> events lost since a virtual processor's last
        for event in text.events:
            if event.name == "lost":
                gone[event.processor] = gone.get(event.processor, 0) + event.fields["count"]
                continue
            if event.processor in gone and event.tid in self.threads and event.name in ENTERS:
                self.threads[event.tid].lose(gone.pop(event.processor))
            if event.name == "sched_switch":
                self.switch(event)
            elif event.name in ("sched_wakeup", "sched_waking"):
                if event.fields["pid"] in self.threads:
                    self.threads[event.fields["pid"]].levels.wake_up(event.time)
            elif event.tid in self.threads:
                getattr(self, event.name, self.other)(self.threads[event.tid], event)
        end = max(event.time for event in text.events if event.name in ENDS)
        for thread in self.threads.values():
            if thread.exit is not None:
                thread.add(thread.exit.time)
            thread.levels.finish(end)

    def switch(self, event):
        self.switches = True
        gone = self.threads.get(event.fields["prev"])
        come = self.threads.get(event.fields["next"])
        if gone:
            gone.levels.scheduled_out(event.time, event.fields["state"].startswith("R"))
            if gone.exit and gone.exit.reason == HLT and gone.exit.out is None:
                gone.exit.out = event.time
        if come:
            come.levels.scheduled_in(event.time)
            if come.exit and come.exit.out is not None:
                come.exit.back = event.time

    def kvm_exit(self, thread, event):
        thread.add(event.time)  # of an exit without an entry: it took no time that is known
        thread.number = event.fields.get("vcpu", thread.number)
        thread.levels.exit(event.time, event.fields["reason"], event.fields.get("rip"))
        thread.exit = Exit(event, thread.levels.last.cr3)

    def kvm_entry(self, thread, event):
        thread.number = event.fields.get("vcpu", thread.number)
        cr3 = known(thread.probe, "cr3")
        self.entries += 1
        self.known += cr3 is not None
        before = thread.levels.last.level if thread.levels.last else None
        level = thread.levels.entry(event.time, cr3, event.fields.get("rip"))
        if thread.exit:
            thread.exit.rsp = known(thread.probe, "rsp") or 0
            if thread.exit.cr3 is None and level == before:
                thread.exit.cr3 = cr3
        thread.add(event.time)
        thread.probe = {}

    def vcpu(self, thread, event):
        thread.probe = event.fields

    def kvm_nested_vmexit(self, thread, _):
        if thread.exit:
            thread.exit.nested = True

    def kvm_cr(self, thread, event):
        fields = event.fields
        if thread.exit and fields["number"] == 3 and fields["write"]:
            self.loads += 1
            thread.exit.loaded = fields["value"]

    def kvm_cpuid(self, thread, event):
        if thread.exit:
            thread.exit.leaf = event.fields["leaf"]

    def kvm_inj_virq(self, thread, event):
        if thread.exit:
            thread.exit.vector = event.fields["vector"]

    @staticmethod
    def other(thread, event):
        """An event that says nothing of a virtual processor."""

    def complaints(self):
        found = list(self.text.complaints)
        if not self.switches:
            found.append("no sched_switch in the trace: time halted counts as root mode's")
        woken = sum(thread.woken for thread in self.threads.values())
        if woken:
            found.append(
                f"{woken} records of EXTERNAL_INTERRUPT stand for the ends of HLT, where "
                "KVM takes no exit"
            )
        cut = sum(thread.cut for thread in self.threads.values())
        if cut:
            found.append(f"{cut} exits took longer in root mode than a record holds")
        if not self.known and not self.loads:
            found.append(
                "CR3 is not in the trace: processes are not told apart, and levels by RIP "
                "alone (kvm_probe.py has the probe)"
            )
        return found

    def source(self, khz=0):
        """Gives the records of all virtual processors, as trace_source.py has them. `khz`: of the
        clock, where the text has its counts; 0: not known."""
        source = Source(
            tsc_khz=khz if self.text.counts else NS_KHZ,
            level=TRACE_FLOW if self.loads else TRACE_EXITS,
            complaints=self.complaints(),
        )
        threads = sorted(self.threads.values(), key=lambda thread: (thread.number, thread.tid))
        # Two machines have a virtual processor of one number.
        same = len({thread.number for thread in threads}) < len(threads)
        for place, thread in enumerate(threads):
            source.processors[place if same else thread.number] = thread.records
            source.gaps[place if same else thread.number] = dict(thread.gaps)
        # What is missing before the first event or after the last is of no one processor.
        rest = self.text.lost - source.lost()
        if rest:
            gaps = source.gaps[min(source.gaps)]
            gaps[0] = gaps.get(0, 0) + rest
        return source


def read(lines):
    """Takes the lines of a text; gives a Host. ValueError: it is not such a text."""
    text = kvm_text.parse(lines)
    host = Host(text)
    if identity.pti_inferred(host.source().processors):
        host = Host(text, TABLE_MASK & ~PTI_USER_TABLE)
    return host


def trace_file(source):
    """Takes a Source; gives the bytes of a trace file: a head, and of each processor a chunk for
    each stretch without a loss."""
    out = [
        records.FILE.pack(
            records.FILE_MAGIC,
            records.VERSION,
            records.RECORD.size,
            source.tsc_khz,
            source.level,
            len(source.processors),
        )
    ]
    for number, found in source.processors.items():
        gaps, gone = source.gaps.get(number, {}), 0
        starts = sorted({0, *gaps})
        for start, end in zip(starts, [*starts[1:], len(found)]):
            lost = gaps.get(start, 0)
            gone += lost
            out.append(
                records.CHUNK.pack(records.CHUNK_MAGIC, number, end - start, start + gone, lost)
            )
            out += [
                records.RECORD.pack(
                    each.tsc,
                    each.rip,
                    each.cr3 | each.reason << 48 | each.flags << 56,
                    each.detail,
                    each.root_time,
                )
                for each in found[start:end]
            ]
    return b"".join(out)


def judge(thread):
    """Takes a Thread of a trace with KVM's nested events; gives {(level found, level by KVM):
    count} of its runs."""
    return collections.Counter(
        (run.level, truth) for run, truth in zip(thread.levels.runs, thread.truths)
    )


def summary(host):
    """Gives what the trace shows of each virtual processor, for JSON. Times in the trace's unit."""
    nested = any(event.name in TRUTH for event in host.text.events)
    out = {
        "unit": "counts" if host.text.counts else "ns",
        "lost": host.text.lost,
        "complaints": host.complaints(),
        "entries": host.entries,
        "cr3_known": host.known,
        "vcpus": [],
    }
    for thread in host.threads.values():
        reasons = collections.defaultdict(lambda: [0, 0])
        for run in thread.levels.runs:
            reasons[reason_name(run.reason)][0] += 1
        for record in thread.records:
            reasons[reason_name(record.reason)][1] += record.root_time
        times = sorted(levels.times(thread.levels.intervals).items(), key=str)
        entry = {
            "tid": thread.tid,
            "vcpu": thread.number,
            "woken": thread.woken,
            "exits": {
                name: {"count": count, "root_time": time}
                for name, (count, time) in sorted(reasons.items())
            },
            "times": {
                f"{state} L{level}" if state == levels.RUNNING else state: time
                for (state, level), time in times
            },
            "preemptions": [each._asdict() for each in thread.levels.preemptions],
        }
        if nested:
            counts = judge(thread)
            entry["levels"] = {
                "right": sum(count for (a, b), count in counts.items() if a == b),
                "of": sum(counts.values()),
            }
        out["vcpus"].append(entry)
    return out


def text_of(found):
    lines = [f"complaint: {text}" for text in found["complaints"]]
    lines.append(f"CR3 known at {found['cr3_known']} of {found['entries']} entries")
    for vcpu in found["vcpus"]:
        lines.append(f"vCPU {vcpu['vcpu']} (thread {vcpu['tid']}), times in {found['unit']}")
        lines += [f"  {name:<24}{time:>16,}" for name, time in vcpu["times"].items()]
        lines += [
            f"  exit {name:<19}{entry['count']:>16,}{entry['root_time']:>16,}"
            for name, entry in vcpu["exits"].items()
        ]
        lines.append(f"  preempted in the guest  {len(vcpu['preemptions']):>16,}")
        if "levels" in vcpu:
            lines.append(
                f"  levels as KVM says      {vcpu['levels']['right']:>16,} of "
                f"{vcpu['levels']['of']:,} runs"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="a KVM host's trace as records, and its levels")
    parser.add_argument("text")
    parser.add_argument("--khz", type=int, default=0)
    parser.add_argument("--trace")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        if options.text == "-":
            host = read(sys.stdin)
        else:
            with open(options.text, encoding="utf-8", errors="replace") as source:
                host = read(source)
    except (OSError, ValueError) as error:
        sys.exit(f"kvm_trace.py: {options.text}: {error}")
    if options.trace:
        try:
            with open(options.trace, "wb") as out:
                out.write(trace_file(host.source(options.khz)))
        except OSError as error:
            sys.exit(f"kvm_trace.py: {options.trace}: {error}")
    found = summary(host)
    print(json.dumps(found, indent=1) if options.json else text_of(found))


if __name__ == "__main__":
    main()
