# SPDX-License-Identifier: BSD-2-Clause
# test_kvm_host.py: kvm_text.py and kvm_trace.py on small excerpts of real traces. They are of
# tests/test_kvm_trace.py's boots (FULL=1 make e2e T=kvm_trace/), lines of the console as they
# were; of the nested one three stretches. Those of perf and trace-cmd are of a boot like the plain
# one, where `perf record` and `trace-cmd record -C x86-tsc` started the launcher.
import json
import os
import struct
import subprocess
import sys

import pytest

from experiments.flow.analysis import btf, exit_reasons, kvm_text, kvm_trace, levels, states
from experiments.shared.analysis import cr3, records

HERE = os.path.dirname(__file__)
FIXTURES = os.path.join(HERE, "fixtures")


def host(name):
    with open(os.path.join(FIXTURES, name), encoding="utf-8") as source:
        return kvm_trace.read(source)


def thread(found):
    assert len(found.threads) == 1
    return next(iter(found.threads.values()))


def reasons(found):
    return [exit_reasons.name(run.reason) for run in thread(found).levels.runs]


def test_plain():
    """A guest that halts: exits in their order, and idle from the thread's sleep to its return."""
    found = host("kvm_plain.txt")
    assert found.text.counts and found.text.lost == 0 and found.complaints()
    assert reasons(found)[:6] == ["EPT_VIOLATION"] * 4 + ["HLT", "WRMSR"], reasons(found)
    made = thread(found).records
    halt = next(i for i, record in enumerate(made) if record.reason == levels.HLT)
    slept, woke = made[halt], made[halt + 1]
    text = [event for event in found.text.events if event.name == "sched_switch"]
    assert slept.tsc + slept.root_time == text[0].time and woke.tsc == text[1].time
    assert woke.reason == exit_reasons.EXTERNAL_INTERRUPT and woke.detail == 0xEC
    assert thread(found).woken == len(made) - len(reasons(found))
    for before, after in zip(made, made[1:]):
        assert before.tsc + before.root_time <= after.tsc
    idle = levels.times(thread(found).levels.intervals)[levels.IDLE, None]
    line = states.timeline(found.source())
    shown = sum(each.end - each.start for each in line.processors[0] if each.state == "idle")
    # The paper's Idle ends at the wake-up, the records' when the thread runs again.
    waits = levels.times(thread(found).levels.intervals)[levels.WAIT, None]
    assert shown == idle + waits > 0, (shown, idle, waits)


def test_nested():
    """Runs of PMUvisor and of its Linux are told apart as KVM's own events say."""
    found = host("kvm_nested.txt")
    counts = kvm_trace.judge(thread(found))
    assert set(counts) == {(1, 1), (2, 2)}, counts
    assert len(thread(found).truths) == len(thread(found).levels.runs)
    again = levels.of_records(thread(found).records)
    assert [run.level for run in again.runs] == [
        run.level for run in thread(found).levels.runs
    ], "by CR3 alone, from the records"


def test_nested_without_truth():
    """KVM's own nested events are what is compared with, not what the levels come from."""
    with open(os.path.join(FIXTURES, "kvm_nested.txt"), encoding="utf-8") as source:
        lines = [line for line in source if "kvm_nested" not in line]
    bare = kvm_trace.read(lines)
    assert [run.level for run in thread(bare).levels.runs] == [
        run.level for run in thread(host("kvm_nested.txt")).levels.runs
    ]
    # And without what they come from, they are wrong.
    blind = kvm_trace.read(
        [line.replace("cr3_known=1", "cr3_known=0").replace(", rip", ", at") for line in lines]
    )
    assert [run.level for run in thread(blind).levels.runs] != [
        run.level for run in thread(bare).levels.runs
    ]


def test_shadow():
    """Without EPT, loads of CR3 are exits, with the value of KVM's event kvm_cr."""
    found = host("kvm_shadow.txt")
    at, loads = None, {}
    for event in found.text.events:
        if event.name == "kvm_exit":
            at = event.time
        elif event.name == "kvm_cr" and event.fields["write"] and event.fields["number"] == 3:
            loads[at] = event.fields["value"] & (1 << 48) - 1
    assert loads and found.loads == len(loads)
    assert {
        record.tsc: record.cr3 for record in thread(found).records if record.tsc in loads
    } == loads, "the new value, not that at the exit"
    assert found.source().level == 2, "each load of CR3 is there"
    # The table of user space is its neighbour's, and RSP is no stack while CR3 is in it.
    assert thread(found).levels.mask == cr3.TABLE_MASK & ~cr3.PTI_USER_TABLE
    in_use = [
        event
        for event in found.text.events
        if event.name == "vcpu"
        and event.fields["rsp_known"]
        and event.fields["rsp"] & ~(1 << 63 | 0x1FFF) == event.fields["cr3"] & ~0x1FFF
    ]
    assert in_use and not any(
        record.detail for record in thread(found).records if record.reason == exit_reasons.CR_ACCESS
    )


@pytest.mark.parametrize("name", ["perf_script.txt", "trace_cmd_report.txt"])
def test_other_tools(name):
    """The same events as perf and trace-cmd print them."""
    found = host(name)
    names = {event.name for event in found.text.events}
    assert {"kvm_entry", "kvm_exit", "sched_switch", "sched_wakeup"} <= names, names
    assert found.switches and not found.text.complaints, found.text.complaints
    runs = thread(found).levels.runs
    assert len(runs) > 5 and all(run.reason is not None and run.rip for run in runs)
    assert levels.times(thread(found).levels.intervals)[levels.IDLE, None] > 0
    assert found.text.counts == (name == "trace_cmd_report.txt")


def test_seconds():
    """A time with a point is in seconds, whatever digits it has."""
    text = kvm_text.parse(
        [
            "    qemu-kvm-12  [001] 10.000001: kvm_entry: vcpu 3, rip 0x10",
            " CPU 0/KVM  12 [001]    10.000002500:  kvm:kvm_exit: vcpu 3 reason HLT rip 0x10 info1 "
            "0x0000000000000000 info2 0x0 intr_info 0x00000000 error_code 0x00000000",
        ]
    )
    assert [event.time for event in text.events] == [10_000_001_000, 10_000_002_500]
    assert [event.tid for event in text.events] == [12, 12] and not text.counts
    assert text.events[1].comm == "CPU 0/KVM" and text.events[1].fields["vcpu"] == 3


def test_old_and_unknown_reasons():
    fields = kvm_text.exit_fields("reason UNKNOWN (75) rip 0x10 info 182 0")
    assert fields["reason"] == 75 and fields["info1"] == 0x182 and "vcpu" not in fields
    assert kvm_text.exit_fields("vcpu 0 reason INVALID_STATE FAILED_VMENTRY rip 0x1")["failed"]
    assert kvm_text.exit_fields("vcpu 0 reason NONSENSE rip 0x1") is None


def test_not_a_trace():
    with pytest.raises(ValueError, match="found no kvm_exit"):
        kvm_text.parse(["hello", "# tracer: nop"])


def test_lost_and_cut():
    """What the tracer lost is said; an exit whose entry is missing takes no time."""
    lines = [
        "# entries-in-buffer/entries-written: 3/10   #P:1\n",
        " a-1 [000] ..... 100: kvm_entry: vcpu 0, rip 0x10\n",
        " a-1 [000] ..... 110: kvm_exit: vcpu 0 reason CPUID rip 0x10 info1 0x0\n",
        "CPU:0 [LOST 5 EVENTS]\n",
        " a-1 [000] ..... 200: kvm_exit: vcpu 0 reason HLT rip 0x1",
    ]
    found = kvm_trace.read(lines)
    assert found.text.lost == 12 and found.source().lost() == 12
    # How the first exit ended is among what was lost; and so it is known where that was.
    assert [record.root_time for record in thread(found).records] == [0, 0]
    assert found.source().gaps == {0: {1: 5, 0: 7}}
    assert [interval.state for interval in states.timeline(found.source()).processors[0]] == [
        "unknown"
    ]
    bad = kvm_trace.read(lines + [" a-1 [000] ..... 300: kvm_exit: vcpu 0 re"])
    assert any("not what Linux" in text for text in bad.complaints())


@pytest.mark.parametrize(
    "line",
    [
        "CPU:3 [LOST 5 EVENTS]",
        "CPU:3 [5 EVENTS DROPPED]",
        " a 1 [003] 1.5: PERF_RECORD_LOST lost 5",
    ],
    ids=["tracefs", "trace_cmd", "perf"],
)
def test_losses(line):
    assert kvm_text.lost_line(line) == (3, 5)


def test_two_machines():
    """Two virtual processors of number 0 are two processors."""
    found = kvm_trace.read(
        [
            f" a-{tid} [000] ..... {time}: kvm_{rest}"
            for tid, time, rest in (
                (1, 10, "entry: vcpu 0, rip 0x1"),
                (2, 20, "entry: vcpu 0, rip 0x1"),
                (1, 30, "exit: vcpu 0 reason CPUID rip 0x1"),
                (2, 40, "exit: vcpu 0 reason HLT rip 0x1"),
            )
        ]
    )
    assert sorted(found.source().processors) == [0, 1]


def test_trace_file(tmp_path):
    """What other tools read of it are the same records."""
    source = host("kvm_nested.txt").source(50_000)
    source.gaps = {0: {0: 2, 5: 7}}
    file = tmp_path / "kvm.ptrace"
    file.write_bytes(kvm_trace.trace_file(source))
    again = records.read(file)
    assert again.gaps == source.gaps
    assert not again.complaints and again.tsc_khz == 50_000 and again.level == source.level
    assert {
        number: [tuple(each) for each in found] for number, found in again.processors.items()
    } == {number: [tuple(each) for each in found] for number, found in source.processors.items()}


def test_polled_halt():
    """HLT without sleep: all of it is root mode's, and what follows is not idle."""
    found = kvm_trace.read(
        [
            " a-1 [000] ..... 100: kvm_exit: vcpu 0 reason HLT rip 0x10 info1 0x0",
            " a-1 [000] ..... 150: kvm_inj_virq: IRQ 0xec",
            " a-1 [000] ..... 200: kvm_entry: vcpu 0, rip 0x11",
            " a-1 [000] ..... 300: kvm_exit: vcpu 0 reason CPUID rip 0x10 info1 0x0",
        ]
    )
    assert [(record.tsc, record.root_time, record.detail) for record in thread(found).records] == [
        (100, 100, 0),
        (200, 0, 0xEC),
        (300, 0, 0),
    ]
    line = states.timeline(found.source())
    assert [each.state for each in line.processors[0]] == ["root", "running"]


def test_long_stay():
    """A record holds 32 bits of root time: more is cut, and said."""
    found = kvm_trace.read(
        [
            " a-1 [000] ..... 100: kvm_exit: vcpu 0 reason CPUID rip 0x10 info1 0x0",
            f" a-1 [000] ..... {1 << 33}: kvm_entry: vcpu 0, rip 0x12",
        ]
    )
    assert thread(found).records[0].root_time == 0xFFFF_FFFF
    assert any("longer in root mode" in text for text in found.complaints())


def test_command(tmp_path):
    tool = [sys.executable, "-m", kvm_trace.__name__]
    nested = os.path.join(FIXTURES, "kvm_nested.txt")
    file = tmp_path / "out.ptrace"
    done = subprocess.run(
        [*tool, nested, "--json", "--trace", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (vcpu,) = json.loads(done.stdout)["vcpus"]
    assert vcpu["levels"]["right"] == vcpu["levels"]["of"] > 0
    assert vcpu["times"]["running L1"] > 0 and vcpu["times"]["running L2"] > 0
    assert file.stat().st_size > 0
    bad = tmp_path / "bad"
    bad.write_text("nothing\n")
    done = subprocess.run([*tool, str(bad)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr


# A base with int, and a module's with struct inner { int pad; union { int a; int cr3; }; } and
# struct kvm_vcpu { int id; struct inner arch; }, as clang would write them.
def section(strings, types, first=0):
    names, text = {}, b"" if first else b"\0"
    for name in strings:
        names[name] = first + len(text)
        text += name.encode() + b"\0"
    body = b"".join(
        struct.pack(
            f"<{len(words)}I",
            *(names.get(word, word) if isinstance(word, str) else word for word in words),
        )
        for words in types
    )
    return btf.HEADER.pack(btf.MAGIC, 1, 0, 24, 0, len(body), len(body), len(text)) + body + text


def test_btf():
    base = section(["int"], [("int", 1 << 24, 4, 32)])
    first = 5  # the base's strings: "\0int\0"
    module = section(
        ["inner", "pad", "cr3", "kvm_vcpu", "id", "arch", "reg", "RSP"],
        [
            (0, 5 << 24 | 2, 4, "pad", 1, 0, "cr3", 1, 0),  # 2: the union
            ("inner", 4 << 24 | 2, 8, "pad", 1, 0, 0, 2, 32),  # 3
            ("kvm_vcpu", 4 << 24 | 2, 12, "id", 1, 0, "arch", 3, 32),  # 4
            ("reg", 6 << 24 | 1, 4, "RSP", 4),
        ],
        first,
    )  # 5
    types = btf.Types(module, btf.Types(base))
    assert types.offset("kvm_vcpu", "id") == 0
    assert types.offset("kvm_vcpu", "arch.cr3") == 8
    assert types.enumerator("RSP") == 4
    with pytest.raises(KeyError, match="no member 'arch.nothing'"):
        types.offset("kvm_vcpu", "arch.nothing")
    with pytest.raises(ValueError, match="found magic"):
        btf.Types(b"\0" * 64)
