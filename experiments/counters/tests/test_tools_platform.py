# SPDX-License-Identifier: BSD-2-Clause
# test_tools_platform.py: what tools of the platform say is right, beside being the same as natively
# (rows likwid, pcm, turbostat, hwloc, topdown and residency of guest/tools/tools.ini;
# test_perf_tools.py compares them): counts are the load, shares of slots add up, energy counts;
# without the knob `platform` the registers are not there.
import re

import pytest

from experiments.counters.tests import tools, tools_table

TABLE = tools_table.read()
ROUNDS = 1_000_000  # of /loop: LOOP_ROUNDS of programs/images.mk
OWN_MAX = 10_000  # likwid's own instructions
ENTRIES = ("native", "msr+nmi")
pytestmark = pytest.mark.full


def said(lab, row, column="msr+nmi", cases=(), name="", **more):
    """{case: Case} of a row."""
    tool = TABLE[row]
    return tools.ended(tools.boot_of(lab, tool, column, cases, name, **more), tool, cases)


def table_value(lines, name):
    """A metric of likwid-perfctr's table."""
    found = [line.split("|")[-2] for line in lines if re.match(rf"\| +{re.escape(name)} +\|", line)]
    assert len(found) == 1, (name, lines)
    return float(found[0])


def test_platform_counts(lab):
    """What likwid counts is the load, of known length, and little of its own; floating-point
    operations, of which it has none, are the same to the last one."""
    operations, more = set(), []
    for entry in ENTRIES:
        found = said(lab, "likwid", entry)
        for case, name, load in (
            ("events", "INSTR_RETIRED_ANY", 2 * ROUNDS + 4),
            ("events", "BR_INST_RETIRED_ALL_BRANCHES", ROUNDS),
            ("tma", "UOPS_RETIRED_RETIRE_SLOTS", 2 * ROUNDS + 4),
        ):
            more.append(table_value(found[case].lines, name) - load)
        operations.add(tuple(line for line in found["flops"].lines if "FP_ARITH" in line))
    assert 0 < min(more) and max(more) < OWN_MAX, more
    assert len(operations) == 1 and len(max(operations)) == 4, operations
    return f"{min(more):.0f} to {max(more):.0f} more than the load"


def shares(lines):
    """The four shares of the slots in percent, as perf prints them in one line with --topdown."""
    found = [re.findall(r"([\d.]+)%", line) for line in lines if line.startswith("S0-D0-C0")]
    assert len(found) == 1 and len(found[0]) == 4, lines
    return [float(share) for share in found[0]]


def test_platform_shares(lab):
    """The four shares of the slots, by perf and by likwid, add up to 100 percent, natively and in
    the guest; half of the instructions of /loop are branches that are taken."""
    told = []
    for entry in ENTRIES:
        perf = shares(said(lab, "topdown", entry)["shares"].lines)
        lines = said(lab, "likwid", entry)["tma"].lines
        likwid = [
            table_value(lines, f"{name} [%]")
            for name in ("Retiring", "Speculation", "Front End", "Back End")
        ]
        for found in (perf, likwid):
            assert abs(sum(found) - 100) < 0.5 and abs(found[0] - 25) < 0.5, (entry, found)
        # 3 of 4 slots of each second cycle
        assert abs(likwid[2] - 37.5) < 1, likwid
        told.append(
            f"{entry}: perf " + " ".join(map(str, perf)) + ", likwid " + " ".join(map(str, likwid))
        )
    return "; ".join(told)


def test_platform_off(lab):
    """Without the knob turbostat ends at a register that is not there, and likwid finds no
    energy."""
    knobs = TABLE["turbostat"].get("knobs").split("/")[-1].strip() + "\n"
    debug = said(lab, "turbostat", cases=("debug",), name="-off", knobs=knobs)["debug"]
    assert debug.status != 0 and "msr offset 0xe2 read failed" in debug.lines[-1], debug
    meter = said(lab, "likwid", cases=("powermeter",), name="-off", knobs=knobs)["powermeter"]
    assert not any("RAPL domain" in line for line in meter.lines), meter
    return debug.lines[-1]


def test_platform_exits_seen(lab):
    """Under intercept, where the PMU's registers exit, the search for such exits finds them."""
    tool = TABLE["topdown"]
    boot = tools.boot_of(lab, tool, "intercept", ("slots",))
    exits, _, _ = tools.exits_of(boot, tools.ended(boot, tool, ("slots",)))
    assert exits > 0
    return f"{exits} exits"


def test_platform_registers(lab):
    """turbostat, likwid and pcm come to their ends and have read the platform's registers; energy
    counts."""
    debug = said(lab, "turbostat")["debug"]
    assert debug.status == 0 and any("pkg-cstate-limit=2" in line for line in debug.lines), debug
    energy = table_value(said(lab, "likwid")["energy"].lines, "Energy [J]")
    assert energy > 0 and any("SMI count: 0" in line for line in said(lab, "pcm")["program"].lines)
    return f"{energy} J"


def test_platform_bit(lab):
    """By the hypervisor bit pcm says that there is one and takes a counter less, and Linux has no
    PMU of C-states: natively and with hypervisor_bit=off neither."""
    for column, seen in (("native", False), ("hidden", False), ("msr+nmi", True)):
        lines = said(lab, "pcm", column)["program"].lines
        assert any("hypervisor" in line for line in lines) == seen, (column, lines)
        assert (said(lab, "residency", column)["cstates"].status != 0) == seen, column
