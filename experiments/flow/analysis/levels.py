# SPDX-License-Identifier: BSD-2-Clause
# levels.py: which level of virtualization a virtual processor runs, and why it does not run, of
# what the host alone sees: virtFlow's Any-Level VM Detection Algorithm (ADA, algorithm 1) and
# Nested VM State Detection (NSD, algorithm 2); H. Nemati, M. Dagenais, IEEE Transactions on Cloud
# Computing 8(3), 2020. Level 0 is the host, level 1 its guest, level 2 that one's guest.
#
# Where the algorithms as printed cannot be right, and what is done here: timeline.md, "Levels of
# virtualization".
import typing

from experiments.shared.analysis.cr3 import TABLE_MASK

VMLAUNCH, VMRESUME, HLT = 20, 24, 12  # basic exit reasons
LAUNCHES = (VMLAUNCH, VMRESUME)
# Both are three bytes long (SDM Vol. 2, "VMLAUNCH/VMRESUME"): one that fails goes on after them.
LAUNCH_BYTES = 3
INSTRUCTION_BYTES_MAX = 15

WAIT, ROOT, RUNNING, IDLE, PREEMPTED = "waiting", "root", "running", "idle", "preempted"
START = "unknown"


class Interval(typing.NamedTuple):
    """A virtual processor's state from `start` to `end`. `level`: 1 and more where it is RUNNING,
    0 in ROOT, None where it does not run. `cr3` as it entered, None: not known."""

    start: int
    end: int
    state: str
    level: int | None
    cr3: int | None


class Preemption(typing.NamedTuple):
    """A process of a guest did not run from `start` to `end` (None: the trace ended), though it had
    not halted: its own hypervisor or kernel ran process `by` of the same level."""

    start: int
    end: int | None
    level: int
    cr3: int
    by: int


class Run(typing.NamedTuple):
    """From an entry to the next exit."""

    level: int
    cr3: int | None
    start: int
    end: int | None = None
    reason: int | None = None
    rip: int | None = None  # at the exit


class Vcpu:
    """One virtual processor. Its events come by time; `intervals` and `preemptions` are what was
    found, `runs` each stay in the guest. CR3 and RIP of an event may be None; both, and only what
    VMLAUNCH and VMRESUME say is known.

    What it learns is its own and not its machine's: a virtual processor reaches a level only by a
    VMLAUNCH or VMRESUME of its own, and two machines' CR3s may be the same number."""

    def __init__(self, mask=TABLE_MASK):
        """`mask`: the bits of CR3 that tell processes apart; see identity.py."""
        self.mask = mask
        self.intervals, self.preemptions, self.runs = [], [], []
        self.hypervisors = {}  # table -> level that it runs at
        self.last = None  # the last Run
        self.below = None  # the level that was left for a hypervisor below it
        self.pending = None  # the level whose VMRESUME went to a hypervisor below it
        self.processes = {}  # level -> the last Run there of a process
        self.open = {}  # (level, table) -> place in preemptions
        self.now = (None, START, None, None)

    def table(self, cr3):
        return None if cr3 is None else cr3 & self.mask

    def state(self, time, state, level=None, cr3=None):
        since, *old = self.now
        if since is not None and time > since:
            self.intervals.append(Interval(since, time, *old))
        self.now = (time, state, level, cr3)

    def wake_up(self, time):
        """The thread may run again."""
        if self.now[1] in (IDLE, PREEMPTED, WAIT, START):
            self.state(time, WAIT)

    def scheduled_in(self, time):
        self.state(time, ROOT, 0)

    def scheduled_out(self, time, runnable=None):
        """`runnable`: the scheduler took the processor away (sched_switch: prev_state R); None: not
        known, and then the last exit decides, as in the paper. A thread that halted may be runnable
        again before it is gone. One that sleeps without HLT waits for the host, which the paper
        counts as preempted."""
        halted = self.last is not None and self.last.reason == HLT
        if runnable is None:
            runnable = not halted
        self.state(time, PREEMPTED if runnable else IDLE if halted else WAIT)

    def exit(self, time, reason, rip=None):
        """A VM exit, by its basic reason. A run whose entry the trace does not have is of the level
        of the last one."""
        if self.last is None or self.last.end is not None:
            level = self.last.level if self.last else 1
            self.last = Run(level, None, time)
        self.last = self.last._replace(end=time, reason=reason, rip=rip)
        self.runs.append(self.last)
        if reason in LAUNCHES and self.last.cr3 is not None:
            # It is one at the moment that it executes this, whatever comes of it.
            self.hypervisors[self.table(self.last.cr3)] = self.last.level
        if self.last.cr3 is not None and self.table(self.last.cr3) not in self.hypervisors:
            self.processes[self.last.level] = self.last
        self.state(time, ROOT, 0)

    def entry(self, time, cr3=None, rip=None):
        """A VM entry; gives its level."""
        level = self.level_of(cr3, rip)
        if self.last is not None and level < self.last.level:
            self.below = self.last.level
            if self.last.reason in LAUNCHES:
                self.pending = self.last.level
        elif self.pending is not None and level >= self.pending:
            self.pending = None
        if cr3 is None and self.last is not None and self.last.level == level:
            cr3 = self.last.cr3  # not known to have changed
        self.note_process(time, level, cr3)
        self.last = Run(level, cr3, time)
        self.state(time, RUNNING, level, cr3)
        return level

    def level_of(self, cr3, rip):
        last = self.last
        if last is None or last.reason is None:
            return last.level if last else 1
        known = self.hypervisors.get(self.table(cr3)) if cr3 is not None else None
        jumped = None
        if rip is not None and last.rip is not None:
            jumped = not 0 <= rip - last.rip <= INSTRUCTION_BYTES_MAX
        if last.reason in LAUNCHES:
            return self.level_after_launch(last, known, cr3, rip)
        if last.level == 1:
            return 1
        # The exit was handed to a hypervisor below, or the host has handled it itself. A process
        # may have a hypervisor's CR3 by chance: they are addresses of different memories.
        if jumped is not None:
            if not jumped:
                return last.level
            if known is not None and known < last.level:
                return known
            # Its CR3 was not seen when it executed VMRESUME. The host hands exits to level 1 alone.
            if cr3 is not None:
                self.hypervisors[self.table(cr3)] = 1
            return 1
        return known if known is not None and known < last.level else last.level

    def level_after_launch(self, last, known, cr3, rip):
        if rip is not None and last.rip is not None:
            if rip == last.rip + LAUNCH_BYTES:
                return last.level
        elif cr3 is not None and self.table(cr3) == self.table(last.cr3):
            return last.level
        if known is not None and known != last.level:
            # Below: the instruction was its guest's, and it has to emulate it. Above: its guest is
            # a hypervisor and goes on.
            return known
        if self.pending is not None and self.pending > last.level:
            return self.pending + 1
        if self.below is not None and self.below > last.level:
            return self.below
        return last.level + 1

    def note_process(self, time, level, cr3):
        """NSD's preemption in the guest: of processes only, of one level only, by the last exit of
        the process that is gone."""
        if cr3 is None or self.table(cr3) in self.hypervisors:
            return
        back = self.open.pop((level, self.table(cr3)), None)
        if back is not None:
            self.preemptions[back] = self.preemptions[back]._replace(end=time)
        gone = self.processes.get(level)
        if gone is not None and self.table(gone.cr3) != self.table(cr3) and gone.reason != HLT:
            self.open[level, self.table(gone.cr3)] = len(self.preemptions)
            self.preemptions.append(Preemption(gone.end, None, level, gone.cr3, cr3))

    def finish(self, time):
        """The trace ends."""
        self.state(time, START)


def times(intervals):
    """Gives {(state, level): time} of intervals: with RUNNING the levels are apart."""
    found = {}
    for each in intervals:
        key = each.state, each.level
        found[key] = found.get(key, 0) + each.end - each.start
    return found


def wake_ups(intervals):
    """Takes the intervals of a thread; gives of each wake-up, until the innermost level of all
    runs, {layer: time}: WAIT is the host's scheduler, ROOT its root mode, a number a level below
    the innermost."""
    top = max((each.level for each in intervals if each.state == RUNNING), default=None)
    found, now = [], None
    for before, each in zip([None, *intervals], intervals):
        if each.state == WAIT and before is not None and before.state == IDLE:
            now = {}
        if now is None:
            continue
        if each.state == RUNNING and each.level == top:
            found.append(now)
            now = None
        elif each.state in (WAIT, ROOT, RUNNING):
            layer = each.level if each.state == RUNNING else each.state
            now[layer] = now.get(layer, 0) + each.end - each.start
        else:
            now = None  # it went to sleep again
    return found


def of_records(records, mask=TABLE_MASK):
    """Takes the records of one processor (trace_ring.h) by time; gives a finished Vcpu.
    CR3 of an entry is that of the next exit. A record has no RIP of its entry."""
    vcpu = Vcpu(mask)
    if records:
        vcpu.entry(records[0].tsc, records[0].cr3 or None)
    for place, record in enumerate(records):
        vcpu.exit(record.tsc, record.reason, record.rip)
        if place + 1 < len(records):
            end = record.tsc + record.root_time
            vcpu.entry(end, records[place + 1].cr3 or None)
            if record.reason == HLT:
                vcpu.state(end, IDLE)  # up to the next record, which is the interrupt's
    if records:
        vcpu.finish(records[-1].tsc + records[-1].root_time)
    return vcpu
