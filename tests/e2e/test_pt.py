# SPDX-License-Identifier: BSD-2-Clause
# test_pt.py: Intel PT in the emulator (the knob `pt`): Linux's driver finds it, and Debian's own
# perf records and decodes. Each branch that perf says is one of the emulator's own list, and the
# other way.
import struct

from machine import STATUS_POWEROFF, path
import pytest

REGIONS = {"user": 3300, "kernel": 3301, "both": 3302, "noretcomp": 3303, "cyc": 3304,
           "small": 3305}
# The emulator's list: testbed/README.md, "Knobs".
RECORD = struct.Struct("<QQQBBBBI")
CONDITIONAL, FAR, EVENT, BEGIN, END = 0, 6, 16, 17, 18
USER_BEFORE, USER_AFTER = 2, 4
NONE = 0
CASES = ["user", "noretcomp", "cyc", "small", "kernel", "both"]
LEAF = {"topa_output": "1", "topa_multiple_entries": "1", "single_range_output": "1", "mtc": "1",
        "psb_cyc": "1", "ip_filtering": "1", "cr3_filtering": "1", "num_address_ranges": "2",
        "mtc_periods": "249", "cycle_thresholds": "1fff", "psb_periods": "3f", "ptwrite": "0"}
LIMIT = 60_000  # millions of instructions


def boot(lab, name, cases, entry="native", knobs="", append="", **more):
    return lab.emulator(f"pt-{name}", entry=entry, initrd=path("build/payload/pt-cloud.img"),
                        jobs="pt", knobs=f"pt on\nbranch_trace 3300-3399 branches\n"
                                         f"guest_files guest\n{knobs}",
                        append=f"norandmaps pmv.pt={','.join(cases)} {append}",
                        config="console=none", limit=LIMIT, **more)


def exact(done, region):
    """The emulator's own list of a region: (from, to, kind, flags) of each."""
    inside, found = False, []
    with open(done.path("branches"), "rb") as source:
        for at, to, _, kind, flags, _, _, _ in RECORD.iter_unpack(source.read()):
            if kind in (BEGIN, END):
                if at == region:
                    inside = kind == BEGIN
            elif inside:
                found.append((at, to, kind, flags))
    return found


def in_mode(records, user, kernel):
    """As a trace of these modes has it: where it leaves them, the target is hidden, and where it
    comes back, the origin."""
    for at, to, _, flags in records:
        before = user if flags & USER_BEFORE else kernel
        after = user if flags & USER_AFTER else kernel
        if before or after:
            yield (at if before else NONE, to if after else NONE)


def decoded(done, case):
    """perf's list: (from, to) of each branch."""
    found = []
    with open(done.path(f"guest/{case}.list"), encoding="utf-8") as source:
        for line in source:
            words = line.split()
            if words[0].startswith("branches"):
                assert words[2] == "=>", line
                found.append((int(words[1], 16), int(words[3], 16)))
    return found


def compare(found, wanted, what):
    """`wanted` is within `found`, without a gap."""
    assert wanted, what
    start = next((n for n in range(len(found)) if found[n:n + 8] == wanted[:8]), None)
    assert start is not None, f"{what}: {[tuple(map(hex, pair)) for pair in wanted[:8]]} is not there"
    for number, pair in enumerate(wanted):
        got = found[start + number] if start + number < len(found) else None
        assert got == pair, f"{what}: branch {number} of {len(wanted)}: {got}, wanted {pair}"
    return len(wanted)


def row(done, case):
    found = [line for line in done.lines("pt")
             if line.get("case") == case and "branches" in line]
    assert len(found) == 1, f"{case}: {done.lines('pt')[-5:]}; last line: {done.last_line()}"
    return found[0]


def test_driver(lab):
    """Linux finds what leaf 14H says."""
    done = boot(lab, "native", CASES, append="pmv.rounds=6")
    done.expect_status(STATUS_POWEROFF)
    shown = {line["capability"]: line["value"]
             for line in done.lines("pt") if "capability" in line}
    assert {name: shown.get(name) for name in LEAF} == LEAF, shown


@pytest.mark.parametrize("case", CASES)
def test_branches(lab, case):
    """What perf decodes is the emulator's own list, branch by branch: of user mode with and without
    return compression, with CYC, with a buffer that fills; of the kernel; of both."""
    done = boot(lab, "native", CASES, append="pmv.rounds=6")
    found = row(done, case)
    assert found["errors"] == "0", found
    user, kernel = case != "kernel", case in ("kernel", "both")
    records = exact(done, REGIONS[case])
    count = compare(decoded(done, case), list(in_mode(records, user, kernel)), case)
    # A branch too many in the list, or too few, is found.
    wanted = list(in_mode(records, user, kernel))
    for wrong in (wanted[:9] + wanted[10:], wanted[:9] + wanted[8:]):
        with pytest.raises(AssertionError):
            compare(decoded(done, case), wrong, case)
    if case == "small":
        assert int(found["pmis"]) > 0, found
    return f"{count} branches, {found['pmis']} PMIs, {found['bytes']} bytes"


def test_off(lab):
    """Without the knob there is no such PMU, and no byte of a trace."""
    done = lab.emulator("pt-off", entry="native", initrd=path("build/payload/pt-cloud.img"),
                        jobs="pt", append="pmv.pt=user")
    assert "no intel_pt" in done.console, done.last_line()
    assert "pt" not in done.ledger.get("stored", {}), done.ledger["stored"]


@pytest.mark.full
def test_many(lab):
    """A longer run, which perf writes piece by piece."""
    done = boot(lab, "many", ["user"], append="pmv.rounds=540")
    assert row(done, "user")["errors"] == "0", row(done, "user")
    count = compare(decoded(done, "user"),
                    list(in_mode(exact(done, REGIONS["user"]), True, False)), "user")
    return f"{count} branches, {row(done, 'user')['bytes']} bytes"
