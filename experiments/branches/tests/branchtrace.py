# SPDX-License-Identifier: BSD-2-Clause
# branchtrace.py: the lists that experiments/branches/guest/ hands over, and the emulator's own
# exact trace of the same stretch (emulator/README.md), compared branch by branch.
import collections
import struct

from testbed import boots
from testbed.machine import exit_count, instructions

TRACED = struct.Struct("<QQQBBBBI")  # branch_trace.h: struct TraceRecord
LISTED = struct.Struct("<QQQ")  # abi.h: struct branchtrace_record
FAR, EVENT, BEGIN, END = 6, 16, 17, 18
MISPREDICTED, USER_BEFORE, USER_AFTER = 1, 2, 4
VECTOR_NMI = 2
MODE_USER, MODE_KERNEL, MODE_FAR = 1, 2, 4  # abi.h: BRANCHTRACE_*
CYCLES = 0xFFFF
INFO_MISPREDICTED, AFTER_READOUT, AFTER_GAP = 1 << 63, 1 << 33, 1 << 34

Branch = collections.namedtuple("Branch", "source target mispredicted cycles")
REGIONS = "3100-3199"


def boot(
    lab,
    name,
    entry,
    runs,
    knobs="",
    job="branchtrace",
    append="",
    image="branchtrace",
    flavour="cloud",
    **more,
):
    """One boot with the job branchtrace; `runs` are its command lines. nokaslr: kernel and user
    branches share the slots of the model's predictor, and which do must not be the boot's luck."""
    words = "/".join(run.replace(" ", "_") for run in runs)
    return lab.emulator(
        name,
        entry=entry,
        jobs=job,
        config="console=none",
        initrd=boots.initrd(flavour, image),
        flavour=flavour,
        append=f"nokaslr pmv.branchtrace={words} {append}",
        knobs=f"{knobs}branch_trace {REGIONS} branches\nguest_files guest\n",
        **more,
    )


def listed(done):
    """{region: (mode, [record])}: what the tool handed over, each record as it lies in memory."""
    found = {}
    with open(done.path("guest/list"), "rb") as source:
        data = source.read()
    at = 0
    while at < len(data):
        region, count, mode = LISTED.unpack_from(data, at)
        at += LISTED.size
        found[region] = (mode, data[at : at + count * LISTED.size])
        at += count * LISTED.size
    return found


def branches_of(records):
    for source, target, info in LISTED.iter_unpack(records):
        yield Branch(
            source,
            target,
            bool(info & INFO_MISPREDICTED),
            None if info & (AFTER_READOUT | AFTER_GAP) else info & CYCLES,
        )


def without_nmis(records):
    """The trace's records without those from an NMI's delivery to its IRET."""
    back = None
    for record in records:
        source, target, _, kind, flags, vector, _, _ = record
        if back is None:
            if kind == EVENT and vector == VECTOR_NMI:
                back = (source, flags & USER_BEFORE)
            else:
                yield record
        elif kind == FAR and target == back[0] and bool(flags & USER_AFTER) == bool(back[1]):
            back = None


def wanted(mode, record):
    _, _, _, kind, flags, _, _, _ = record
    if kind in (FAR, EVENT) and not mode & MODE_FAR:
        return False
    return bool(mode & (MODE_USER if flags & USER_AFTER else MODE_KERNEL))


def traced(done, region, mode):
    """The exact trace of a region, as the tool's list in that mode has to be."""
    inside, last = False, None
    records = []
    with open(done.path("branches"), "rb") as source:
        for record in TRACED.iter_unpack(source.read()):
            kind, number = record[3], record[0]
            if kind in (BEGIN, END):
                if number == region:
                    inside = kind == BEGIN
            elif inside:
                records.append(record)
    for record in without_nmis(records):
        if wanted(mode, record):
            source, target, cycles, _, flags, _, _, _ = record
            yield Branch(
                source,
                target,
                bool(flags & MISPREDICTED),
                None if last is None else min(cycles - last, CYCLES),
            )
            last = cycles


def same(one, other):
    """The cycles of the first branch after a readout are not the program's alone."""
    return one[:3] == other[:3] and (
        one.cycles is None or other.cycles is None or one.cycles == other.cycles
    )


def check_list(done, region):
    """The number of branches, if the list is the trace; else an AssertionError says where not."""
    mode, records = listed(done)[region]
    found, exact = list(branches_of(records)), list(traced(done, region, mode))
    for number, (one, other) in enumerate(zip(found, exact)):
        assert same(one, other), (
            f"region {region}, branch {number}: listed {one}, was {other}; "
            f"before it: {found[number - 1]}"
        )
    assert len(found) == len(exact), f"region {region}: {len(found)} listed, {len(exact)} were"
    assert found, f"region {region}: nothing listed"
    return len(found)


def price(done, region, untraced, readouts):
    """Instructions that one readout adds to the same work untraced."""
    return (instructions(done.region(region)) - instructions(done.region(untraced))) / readouts


Fuzzed = collections.namedtuple("Fuzzed", "row deduction with_rate without_rate exits")


def tell_fuzz(done, job="branchfuzz"):
    """Of each target: its line, the deduction in percent, executions per million instructions with
    and without branch records, and exits."""
    told = []
    for row in done.lines(job):
        traced_region, plain = (done.region(int(row["region"]) + n) for n in (0, 1))
        cost = [instructions(region) / int(row["executions"]) for region in (traced_region, plain)]
        told.append(
            Fuzzed(
                row,
                100 * (1 - cost[1] / cost[0]),
                1e6 / cost[0],
                1e6 / cost[1],
                exit_count(traced_region),
            )
        )
    assert told and done.job_status(job) == 0, done.last_line()
    return told
