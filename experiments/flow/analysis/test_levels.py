# SPDX-License-Identifier: BSD-2-Clause
# test_levels.py: levels.py on hand-made sequences: the example of the paper's figure 6 and table I,
# and what the algorithm as printed gets wrong.
import collections

import pytest

from experiments.flow.analysis import levels

# Values of CR3: a hypervisor, its guest, and others.
TABLES = {"host": 0x1000, "nested": 0x2000, "other": 0x3000, "second": 0x5000, "third": 0x7000}
TABLES |= {"new": 0x8000}
HOST, NESTED, OTHER = (TABLES[name] for name in ("host", "nested", "other"))
MSR_WRITE, EPT_VIOLATION, VMREAD = 32, 48, 23
REASONS = {
    "wrmsr": MSR_WRITE,
    "ept": EPT_VIOLATION,
    "vmread": VMREAD,
    "hlt": levels.HLT,
    "resume": levels.VMRESUME,
    "launch": levels.VMLAUNCH,
}

# Table I: events 1 to 8, 20 and 26 are the paper's; it leaves out those between, and these fill
# them as its text says: exits of the nested guest that the host hands on, and ones that it handles.
# An entry and the exit after it are `TABLE LEVEL REASON`, with the level while it runs.
TABLE_1 = """wake_up; sched_in
host 1 wrmsr; host 1 resume; nested 2 wrmsr; host 1 resume; nested 2 ept; nested 2 wrmsr
host 1 vmread; host 1 resume; nested 2 hlt; host 1 vmread; host 1 wrmsr; host 1 hlt; sched_out"""


def parse(text):
    """Takes events as text; yields (kind, table, level), (exit, reason) or (kind,)."""
    for words in map(str.split, text.replace("\n", ";").split(";")):
        if words[0] not in TABLES:
            yield tuple(words)
            continue
        yield "entry", TABLES[words[0]], int(words[1])
        if len(words) > 2:
            yield "exit", REASONS[words[2]]


def play(text):
    """The Vcpu after the events, ten apart, and the levels that its entries gave, which have to be
    the text's."""
    vcpu, found, wanted, time = levels.Vcpu(), [], [], 0
    for time, (kind, *more) in enumerate(parse(text), 1):
        if kind == "wake_up":
            vcpu.wake_up(10 * time)
        elif kind == "sched_in":
            vcpu.scheduled_in(10 * time)
        elif kind == "sched_out":
            vcpu.scheduled_out(10 * time, *({"yes": True, "no": False}[word] for word in more))
        elif kind == "exit":
            vcpu.exit(10 * time, *more)
        else:
            found.append(vcpu.entry(10 * time, more[0]))
            wanted.append(more[1])
    vcpu.finish(10 * time + 10)
    assert found == wanted
    return vcpu


def test_figure_6():
    assert sum(event[0] != "sched_out" for event in parse(TABLE_1)) == 26
    vcpu = play(TABLE_1)
    states = [(each.state, each.level) for each in vcpu.intervals]
    assert states[:4] == [("waiting", None), ("root", 0), ("running", 1), ("root", 0)]
    assert states[-1] == ("idle", None), states[-1]
    assert [each.start for each in vcpu.intervals] == [10 * i for i in range(1, 28)]
    times = levels.times(vcpu.intervals)
    assert times["running", 1] == 80 and times["running", 2] == 40 and times["idle", None] == 10


def test_wake_ups():
    """From the end of the sleep to the innermost level, by layer; one that sleeps again is none."""
    vcpu = play(
        "host 1 resume; nested 2 hlt; sched_out; wake_up; sched_in; host 1 resume; nested 2 hlt; "
        "sched_out; wake_up; sched_in; sched_out no"
    )
    assert levels.wake_ups(vcpu.intervals) == [{"waiting": 10, "root": 20, 1: 10}]


def as_printed(text, store_last_cr3=False):
    """Algorithm 1, lines 23 to 39 and 44 to 50, word for word; the level of each entry. A CR3 that
    HashMap.get does not know is taken for level 0, and an empty stack gives nothing. Line 16
    alone stores the last CR3, or with `store_last_cr3` each entry: the least to be added."""
    level_of, hypervisors, stacks, last_exit, out = {}, {}, {}, None, []
    last_cr3 = "unknown"
    for kind, *more in parse(text):
        if kind == "exit":
            last_exit = more[0]
        if kind != "entry":
            continue
        cr3 = more[0]
        n = 0 if last_cr3 == "unknown" else level_of.get(cr3, 0)
        if store_last_cr3:
            last_cr3 = cr3
        listed = hypervisors.setdefault(n, [])
        if last_exit in levels.LAUNCHES:
            stack = stacks.setdefault(n, [])
            candidate = stack.pop() if stack else None
            if candidate not in listed:
                listed.append(candidate)
                level_of[candidate], level_of[cr3] = n, n + 1
            n += 1
        if cr3 not in listed:
            stacks.setdefault(n, []).append(cr3)
        out.append(n)
    return out


def test_printed_algorithm_differs():
    """What timeline.md says of it: one too low, as its lists begin at 0; without the last CR3
    what the host handles itself is not level 2; with it, each VMRESUME to a process that is known
    puts that one level higher."""
    want = [event[2] - 1 for event in parse(TABLE_1) if event[0] == "entry"]
    assert want == [0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert as_printed(TABLE_1) == [0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert as_printed(TABLE_1, True) == [0, 0, 1, 0, 2, 2, 0, 0, 3, 0, 0, 0]


@pytest.mark.parametrize(
    "events",
    [
        # A CR3 that was never seen is of the level that ran last, or that the hypervisor left.
        "host 1 resume; nested 2 ept; other 2 wrmsr; host 1 resume; new 2",
        "other 1 wrmsr; host 1 launch; nested 2 wrmsr; host 1 hlt; other 1",
        # A VMRESUME that fails, by the same CR3.
        "host 1 resume; host 1",
        # Level 2's VMRESUME goes to level 1, which emulates it and resumes level 3; its VMREAD,
        # too, which resumes level 2.
        "host 1 resume; second 2 resume; host 1 vmread; host 1 resume; third 3 wrmsr; "
        "host 1 resume; new 3 wrmsr; host 1 resume; second 2 vmread; host 1 resume; second 2",
    ],
    ids=["new_process_of_level_2", "of_level_1", "failed_resume", "level_3"],
)
def test_levels(events):
    play(events)


def test_failed_vmresume():
    """It goes on after the instruction, in the same level."""
    vcpu = levels.Vcpu()
    assert vcpu.entry(0, HOST, 0x100) == 1
    vcpu.exit(1, levels.VMRESUME, 0x110)
    assert vcpu.entry(2, HOST, 0x113) == 1
    vcpu.exit(3, levels.VMRESUME, 0x120)
    assert vcpu.entry(4, HOST, 0x8000) == 2, "a guest with its hypervisor's page table"


def test_same_cr3_by_chance():
    """A process of level 2 whose CR3 is the number that level 1's hypervisor has."""
    vcpu = levels.Vcpu()
    vcpu.entry(0, HOST, 0x100)
    vcpu.exit(1, levels.VMLAUNCH, 0x110)
    assert vcpu.entry(2, NESTED, 0x8000) == 2
    vcpu.exit(3, MSR_WRITE, 0x8010)
    assert vcpu.entry(4, HOST, 0x8012) == 2
    vcpu.exit(5, MSR_WRITE, 0x8020)
    assert vcpu.entry(6, HOST, 0x500) == 1


def test_rip_alone():
    """Without CR3: an entry that does not go on near the exit is the hypervisor's."""
    vcpu = levels.Vcpu()
    found = []
    for rip, out, reason in (
        (0x100, 0x110, levels.VMRESUME),
        (0x8000, 0x8010, EPT_VIOLATION),
        (0x8010, 0x8020, MSR_WRITE),
        (0x8022, 0x8030, MSR_WRITE),
        (0x500, 0x510, VMREAD),
        (0x513, 0x520, levels.VMRESUME),
        (0x8032, 0x8040, levels.HLT),
    ):
        found.append(vcpu.entry(len(found), None, rip))
        vcpu.exit(len(found), reason, out)
    assert found == [1, 2, 2, 2, 1, 1, 2]


@pytest.mark.parametrize(
    "runnable, reason, wanted",
    [
        ("yes", "hlt", "preempted"),
        ("no", "hlt", "idle"),
        ("no", "wrmsr", "waiting"),
        ("yes", "wrmsr", "preempted"),
        ("", "hlt", "idle"),
        ("", "wrmsr", "preempted"),
    ],
)
def test_preempted_by_the_host(runnable, reason, wanted):
    """sched_switch's state decides; without it, the last exit, as in the paper."""
    assert play(f"host 1 {reason}; sched_out {runnable}").intervals[-1].state == wanted


def test_preempted_in_the_guest():
    """A process that gave way without HLT; the hypervisor between two is no process; one that
    halted, or was left by level 1 for level 2, was not preempted."""
    vcpu = play(
        "host 1 resume; nested 2 wrmsr; host 1 resume; other 2 hlt; host 1 resume; nested 2 wrmsr"
    )
    assert vcpu.preemptions == [levels.Preemption(40, 110, 2, NESTED, OTHER)]
    vcpu = play("host 1 resume; nested 2 wrmsr; host 1 vmread; other 1 wrmsr; host 1")
    assert not vcpu.preemptions, "by a hypervisor"


def test_of_records():
    """By records, which have no sched_switch: idle from HLT's entry to the next record."""
    record = collections.namedtuple("record", "tsc rip cr3 reason root_time")
    vcpu = levels.of_records(
        [
            record(10, 0, HOST, levels.VMRESUME, 5),
            record(20, 0, NESTED, levels.HLT, 2),
            record(40, 0, NESTED, 1, 3),
            record(50, 0, NESTED, EPT_VIOLATION, 1),
        ]
    )
    assert [run.level for run in vcpu.runs] == [1, 2, 2, 2]
    assert levels.times(vcpu.intervals) == {("root", 0): 11, ("running", 2): 12, ("idle", None): 18}


def test_waiting_from_the_wakeup():
    vcpu = play("host 1 hlt; sched_out no; wake_up; sched_in; host 1")
    states = "running root idle waiting root running".split()
    assert [each.state for each in vcpu.intervals] == states
