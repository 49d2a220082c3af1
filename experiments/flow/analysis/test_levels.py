# SPDX-License-Identifier: BSD-2-Clause
# test_levels.py: levels.py on hand-made sequences: the example of the paper's figure 6 and table I,
# and what the algorithm as printed gets wrong.
import collections

from experiments.flow.analysis import levels

HOST, NESTED, OTHER = 0x1000, 0x2000, 0x3000  # values of CR3
MSR_WRITE, EPT_VIOLATION, VMREAD = 32, 48, 23

# Table I: events 1 to 8, 20 and 26 are the paper's; it leaves out those between, and these fill
# them as its text says: exits of the nested guest that the host hands on, and ones that it handles.
# (event, level while it runs after an entry)
TABLE_1 = [
    ("wake_up",),
    ("sched_in",),
    ("entry", HOST, 1),
    ("exit", MSR_WRITE),  # 3, 4
    ("entry", HOST, 1),
    ("exit", levels.VMRESUME),  # 5, 6
    ("entry", NESTED, 2),
    ("exit", MSR_WRITE),  # 7, 8
    ("entry", HOST, 1),
    ("exit", levels.VMRESUME),  # handed on
    ("entry", NESTED, 2),
    ("exit", EPT_VIOLATION),
    ("entry", NESTED, 2),
    ("exit", MSR_WRITE),  # handled by the host
    ("entry", HOST, 1),
    ("exit", VMREAD),
    ("entry", HOST, 1),
    ("exit", levels.VMRESUME),
    ("entry", NESTED, 2),
    ("exit", levels.HLT),  # 19, 20
    ("entry", HOST, 1),
    ("exit", VMREAD),
    ("entry", HOST, 1),
    ("exit", MSR_WRITE),
    ("entry", HOST, 1),
    ("exit", levels.HLT),  # 25, 26
    ("sched_out",),
]


def play(events):
    """The Vcpu after the events, ten apart, and the levels that its entries gave."""
    vcpu, found = levels.Vcpu(), []
    for number, (kind, *more) in enumerate(events, 1):
        time = 10 * number
        if kind == "wake_up":
            vcpu.wake_up(time)
        elif kind == "sched_in":
            vcpu.scheduled_in(time)
        elif kind == "sched_out":
            vcpu.scheduled_out(time, *more)
        elif kind == "exit":
            vcpu.exit(time, *more)
        else:
            found.append(vcpu.entry(time, more[0], *more[2:]))
    vcpu.finish(10 * len(events) + 10)
    return vcpu, found


def wanted(events):
    return [event[2] for event in events if event[0] == "entry"]


def test_figure_6():
    assert len([event for event in TABLE_1 if event[0] != "sched_out"]) == 26
    vcpu, found = play(TABLE_1)
    assert found == wanted(TABLE_1)
    states = [(each.state, each.level) for each in vcpu.intervals]
    assert states[:4] == [("waiting", None), ("root", 0), ("running", 1), ("root", 0)]
    assert states[-1] == ("idle", None), states[-1]
    assert [each.start for each in vcpu.intervals] == [10 * i for i in range(1, 28)]
    times = levels.times(vcpu.intervals)
    assert times["running", 1] == 80 and times["running", 2] == 40 and times["idle", None] == 10


def test_wake_ups():
    """From the end of the sleep to the innermost level, by layer; one that sleeps again is none."""
    vcpu, _ = play(
        [
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", NESTED, 2),
            ("exit", levels.HLT),
            ("sched_out",),
            ("wake_up",),
            ("sched_in",),
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", NESTED, 2),
            ("exit", levels.HLT),
            ("sched_out",),
            ("wake_up",),
            ("sched_in",),
            ("sched_out", False),
        ]
    )
    assert levels.wake_ups(vcpu.intervals) == [{"waiting": 10, "root": 20, 1: 10}]


def as_printed(events, store_last_cr3=False):
    """Algorithm 1, lines 23 to 39 and 44 to 50, word for word; the level of each entry. A CR3 that
    HashMap.get does not know is taken for level 0, and an empty stack gives nothing. Line 16
    alone stores the last CR3, or with `store_last_cr3` each entry: the least to be added."""
    level_of, hypervisors, stacks, last_exit, out = {}, {}, {}, None, []
    last_cr3 = "unknown"
    for kind, *more in events:
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
    want = [level - 1 for level in wanted(TABLE_1)]
    assert want == [0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert as_printed(TABLE_1) == [0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert as_printed(TABLE_1, True) == [0, 0, 1, 0, 2, 2, 0, 0, 3, 0, 0, 0]


def test_new_process_of_level_2():
    """A CR3 that was never seen is of the level that ran last, or that the hypervisor left."""
    events = [
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", NESTED, 2),
        ("exit", EPT_VIOLATION),
        ("entry", OTHER, 2),
        ("exit", MSR_WRITE),
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", NESTED + 0x5000, 2),
    ]
    assert play(events)[1] == wanted(events)


def test_new_process_of_level_1():
    events = [
        ("entry", OTHER, 1),
        ("exit", MSR_WRITE),
        ("entry", HOST, 1),
        ("exit", levels.VMLAUNCH),
        ("entry", NESTED, 2),
        ("exit", MSR_WRITE),
        ("entry", HOST, 1),
        ("exit", levels.HLT),
        ("entry", OTHER, 1),
    ]
    assert play(events)[1] == wanted(events)


def test_failed_vmresume():
    """It goes on after the instruction, in the same level; without RIP, by the same CR3."""
    vcpu = levels.Vcpu()
    assert vcpu.entry(0, HOST, 0x100) == 1
    vcpu.exit(1, levels.VMRESUME, 0x110)
    assert vcpu.entry(2, HOST, 0x113) == 1
    vcpu.exit(3, levels.VMRESUME, 0x120)
    assert vcpu.entry(4, HOST, 0x8000) == 2, "a guest with its hypervisor's page table"
    events = [("entry", HOST, 1), ("exit", levels.VMRESUME), ("entry", HOST, 1)]
    assert play(events)[1] == wanted(events)


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


def test_level_3():
    """Level 2's VMRESUME goes to level 1, which emulates it and resumes level 3; its VMREAD, too,
    which resumes level 2."""
    second, third = 0x5000, 0x7000
    events = [
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", second, 2),
        ("exit", levels.VMRESUME),
        ("entry", HOST, 1),
        ("exit", VMREAD),
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", third, 3),
        ("exit", MSR_WRITE),
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", third + 0x1000, 3),
        ("exit", MSR_WRITE),
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", second, 2),
        ("exit", VMREAD),
        ("entry", HOST, 1),
        ("exit", levels.VMRESUME),
        ("entry", second, 2),
    ]
    assert play(events)[1] == wanted(events)


def test_preempted_by_the_host():
    """sched_switch's state decides; without it, the last exit, as in the paper."""
    for state, reason, want in (
        (True, levels.HLT, "preempted"),
        (False, levels.HLT, "idle"),
        (False, MSR_WRITE, "waiting"),
        (True, MSR_WRITE, "preempted"),
        (None, levels.HLT, "idle"),
        (None, MSR_WRITE, "preempted"),
    ):
        vcpu, _ = play([("entry", HOST, 1), ("exit", reason), ("sched_out", state)])
        assert vcpu.intervals[-1].state == want, (state, reason)


def test_preempted_in_the_guest():
    """A process that gave way without HLT; the hypervisor between two is no process; one that
    halted, or was left by level 1 for level 2, was not preempted."""
    vcpu, _ = play(
        [
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", NESTED, 2),
            ("exit", MSR_WRITE),
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", OTHER, 2),
            ("exit", levels.HLT),
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", NESTED, 2),
            ("exit", MSR_WRITE),
        ]
    )
    assert vcpu.preemptions == [levels.Preemption(40, 110, 2, NESTED, OTHER)]
    vcpu, _ = play(
        [
            ("entry", HOST, 1),
            ("exit", levels.VMRESUME),
            ("entry", NESTED, 2),
            ("exit", MSR_WRITE),
            ("entry", HOST, 1),
            ("exit", VMREAD),
            ("entry", OTHER, 1),
            ("exit", MSR_WRITE),
            ("entry", HOST, 1),
        ]
    )
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
    vcpu, _ = play(
        [
            ("entry", HOST, 1),
            ("exit", levels.HLT),
            ("sched_out", False),
            ("wake_up",),
            ("sched_in",),
            ("entry", HOST, 1),
        ]
    )
    assert [each.state for each in vcpu.intervals] == [
        "running",
        "root",
        "idle",
        "waiting",
        "root",
        "running",
    ]
