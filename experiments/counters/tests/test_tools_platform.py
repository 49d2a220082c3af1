# SPDX-License-Identifier: BSD-2-Clause
# test_tools_platform.py: tools that read the platform's registers and the PMU, as Debian packages them
# (experiments/counters/guest/tools/platform.sh): likwid, pcm, turbostat, cpupower, hwloc, and perf's
# top-down analysis. Each case prints in the guest what it prints natively, line by line, but for lines
# that a row of DIFFER names with a reason; nothing of the PMU exits.
# FULL=1: all cases, and the same with hypervisor_bit=off.
import difflib
import itertools
import os
import re

import pytest
from machine import STATUS_POWEROFF, path
from policies import NMI, RDMSR, RDPMC, WRMSR

FULL = os.environ.get("FULL") == "1"
# The turns of multiplexed events are 2 million instructions then (test_tools.py); the ratio is 5.
KNOBS = "platform on\nratios 2,2,1\ntsc_hz 100000000\n"
LIMIT = 200_000
ROUNDS = 1_000_000  # of /loop: LOOP_ROUNDS of programs/images.mk
OWN_MAX = 10_000
PERFEVTSEL, PMC, FIXED, GLOBAL = range(0x186, 0x18a), range(0xc1, 0xc5), range(0x309, 0x30c), range(0x38d, 0x393)
OFFCORE, FULL_WIDTH = range(0x1a6, 0x1a8), range(0x4c1, 0x4c5)
PMU_MSRS = {index for block in (PERFEVTSEL, PMC, FIXED, GLOBAL, OFFCORE, FULL_WIDTH) for index in block}
# Of the platform: what tools read beside (testbed/platform.md).
PLATFORM_MSRS = {0x34, 0xce, 0xe2, 0xe7, 0xe8, 0x198, 0x19c, 0x1a2, 0x1aa, 0x1ad, 0x1ae, 0x1b0, 0x1b1, 0x1fc, 0x3f9,
                 0x3fd, 0x601, 0x606, 0x60a, 0x60b, 0x60c, 0x60d, 0x610, 0x611, 0x613, 0x614, 0x618, 0x619,
                 0x61b, 0x61c, 0x648, 0x649, 0x64a, 0x64b, 0x64c}
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?")

TIME = "times, and clocks measured by them"
BIT = "pcm sees the hypervisor bit: it says so, and takes one general counter less"
SCALED = "13 events that take turns on four counters, scaled"
OWN = "likwid's own work in user mode, which is on that processor, too"
WHOLE = "all that ran on the processor, Linux's own work too"
ENERGY = "energy, which counts all instructions since power-on"
MEMORY = "memory, of which PMUvisor keeps some"
# What a line that differs may be: a pattern for NAME/CASE, one for the line, both natively and in the
# guest, and why; of some lines which part alone. Counts of events in them are of the whole processor.
DIFFER = [
    (r"likwid-topology/.*|lstopo/console", r"(Free|Total) memory:|\d+MB", MEMORY),
    (r"lstopo/xml", r"local_memory|<page_type ", MEMORY),
    (r"likwid-bench/.*|likwid-perfctr/FLOPS_DP",
     r"^(CPU|Cycle) Clock:|^(Time|MFlops/s|MByte/s|Cycles|Cycles per):?", TIME),
    (r"likwid-.*", r"(Runtime|Clock|MFLOP/s|Power|Time)\b.*\|?$", TIME),
    (r"likwid-.*", r"Energy|_ENERGY ", ENERGY),
    (r"likwid-perfctr/.*", r"\|  FIXC\d  \|", OWN),
    (r"likwid-perfctr/(events|TMA|DATA)", r"\|   PMC\d  \||Slots|Bubbles|\[%\]|ratio", OWN),
    (r"pcm.*", r"hypervisor/virtualization|AWS|programmable\) counters|^ L2(MISS|HIT)", BIT),
    (r"pcm/csv", r"^(System|Date),", BIT),
    (r"pcm/csv", r"^\d{4}-", WHOLE),
    (r"pcm.*", r"^ *(Core \(SKT\)|SKT|TOTAL|\d+ |Core \|)|^ *\*|residency|distribution|IPC  |nominal CPU cycle", WHOLE),
    (r"pcm.*", r"Time elapsed|launched with PID", TIME),
    (r"turbostat/.*", r"^Kernel command line", "the kernel's command line"),
    (r"turbostat/.*", r"^\s*([\d.-]+\t)+[\d.-]+$", WHOLE),
    (r"turbostat/.*", r"^[\d.]+ sec$", TIME),
    (r"cpupower/monitor", r"took|^ *0\|", TIME),
    (r"perf/.*", r"elapsed|seconds (user|sys)|Joules", TIME),
    # Of these the counts are the same: what differs is how long they were counted.
    (r"perf/slots", r",\d+,100\.00,,$", TIME, r",\d+,100\.00,,$"),
    (r"perf/topdown", r"[A-Z_]+\.[A-Z_]+|tma_", SCALED),
    (r"perf/topdown_all", r"S0-D0-C0", WHOLE),
]
# A case that ends otherwise in the guest, and why.
ENDS_OTHERWISE = {
    "perf/residency": "Linux has no PMU of C-states under a hypervisor",
}


PARTS = 4 if FULL else 1
# What hypervisor_bit=off could change.
SILENT = ("pcm/twice", "pcm/csv", "pcm/program", "pcm-core/events", "pcm-core/program", "turbostat/debug",
          "cpupower/frequency", "cpupower/monitor", "lstopo/console", "perf/energy", "perf/residency")


def boots(lab, entry, which="full" if FULL else "quick", parts=PARTS, config="console=none", name="",
          knobs=KNOBS):
    """The cases, in so many boots: some take long."""
    found = [lab.emulator(f"platform-{name or which}-{entry}-{part}", entry=entry, jobs="platform,nmilog",
                          config=config, append=f"pmv.platform={which} pmv.platform_part={part}/{parts}",
                          initrd=path("build/payload/platform-cloud.img"), knobs=knobs, limit=LIMIT,
                          memory=1024) for part in range(parts)]
    for boot in found:
        boot.expect_status(STATUS_POWEROFF)
        assert boot.job_status("platform") == 0, boot.last_line()
    return found


def cases(found):
    """{NAME/CASE: (status, [lines])}."""
    said = {}
    for line in "\n".join(boot.console for boot in found).replace("\r", "").splitlines():
        start = re.match(r"tool: name=(\S+) case=(\S+) status=(\d+)", line)
        if start:
            said[f"{start[1]}/{start[2]}"] = int(start[3]), []
        elif line.startswith("tool-said: "):
            case, _, text = line[len("tool-said: "):].partition(": ")
            said[case][1].append(text.rstrip())
    assert said, found[0].last_line()
    return said


def differences(native, found):
    """[(native's line or "", the guest's or "")], aligned by what is no number."""
    shapes = [[NUMBER.sub("#", line) for line in lines] for lines in (native, found)]
    parts = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *shapes, autojunk=False).get_opcodes():
        if tag == "equal":
            parts += zip(native[a:b], found[c:d])
        else:
            parts += itertools.zip_longest(native[a:b], found[c:d], fillvalue="")
    return [pair for pair in parts if pair[0] != pair[1]]


def reason(case, pair):
    for where, line, why, *part in DIFFER:
        same = not part or len({re.sub(part[0], "", text) for text in pair}) == 1
        if re.fullmatch(where, case) and same and all(re.search(line, text) for text in pair if text):
            return why
    return None


def compare(native, found, otherwise=True):
    """The reasons of lines that differ, with how many; one without a reason is an error."""
    assert native.keys() == found.keys(), (list(native), list(found))
    reasons, strange, lines = {}, [], 0
    for case, (status, said) in native.items():
        if case in ENDS_OTHERWISE and otherwise:
            assert status == 0 != found[case][0], (case, status, found[case])
            reasons[ENDS_OTHERWISE[case]] = 1
            continue
        assert status == found[case][0], f"{case}: status {status} natively, {found[case][0]} in the guest"
        lines += len(said)
        for pair in differences(said, found[case][1]):
            why = reason(case, pair)
            if why is None:
                strange.append((case, *pair))
            reasons[why] = reasons.get(why, 0) + 1
    assert not strange, f"{len(strange)} lines differ without a reason: " + \
        "; ".join(f"{case}: '{a}' and '{b}'" for case, a, b in strange[:40])
    return lines, reasons


def check_exits(found):
    """No access to the PMU exits, none to the platform's registers, and no NMI."""
    for boot in found:
        exits = boot.ledger["exits"]
        assert NMI not in exits and RDPMC not in exits, exits
        for access in (RDMSR, WRMSR):
            indices = {int(index, 0) for index in exits.get(access, {}).get("msrs", {})}
            wrong = indices & (PMU_MSRS | PLATFORM_MSRS)
            assert not wrong, wrong


def check_same(native, guest, otherwise=True):
    found = cases(guest)
    lines, reasons = compare({case: said for case, said in cases(native).items() if case in found}, found,
                             otherwise)
    check_exits(guest)
    return f"{lines} lines of {len(found)} cases; differ: " + \
        (", ".join(f"{count} {why}" for why, count in sorted(reasons.items())) or "none")


def test_platform_same(lab):
    """Tools of the platform and of slots print the same under msr+nmi as natively, but for lines with a
    reason; nothing of the PMU exits."""
    native, guest = boots(lab, "native"), boots(lab, "msr+nmi")
    assert cases(native).keys() == cases(guest).keys()
    return check_same(native, guest)


def test_platform_sees():
    """A count that differs, a line that is not there, and a case that ends otherwise are seen; a time that
    differs is not."""
    def say(count, seconds, status=0, more=()):
        return {"likwid-perfctr/events": (status, ["a line", f"| INSTR_RETIRED_ANY | FIXC0 | {count} |",
                                                   f"| Runtime (RDTSC) [s] | TSC | {seconds} |", *more])}

    assert compare(say(1000, 1), say(1000, 2)) == (3, {TIME: 1})
    for other in (say(1001, 1), say(1000, 1, status=1), say(1000, 1, more=["one more"])):
        with pytest.raises(AssertionError):
            compare(say(1000, 1), other)
    return "3 faults"


@pytest.mark.full
def test_platform_silent(lab):
    """The same with hypervisor_bit=off: pcm says nothing of a hypervisor and takes all four counters, and
    Linux has its PMU of C-states."""
    native, guest = boots(lab, "native"), boots(lab, "msr+nmi", ",".join(SILENT), 1,
                                                "console=none hypervisor_bit=off", "silent")
    said = check_same(native, guest, otherwise=False)
    assert set(cases(guest)) == set(SILENT)
    for case, (_, lines) in cases(guest).items():
        assert not any("hypervisor" in line or "AWS" in line for line in lines), (case, lines)
    return said


def shares(lines):
    """The four shares of the slots in percent, as perf prints them in one line with --topdown."""
    found = [re.findall(r"([\d.]+)%", line) for line in lines if line.startswith("S0-D0-C0")]
    assert len(found) == 1 and len(found[0]) == 4, lines
    return [float(share) for share in found[0]]


def table_value(lines, name):
    """A metric of likwid-perfctr's table."""
    found = [line.split("|")[-2] for line in lines if re.match(rf"\| +{re.escape(name)} +\|", line)]
    assert len(found) == 1, (name, lines)
    return float(found[0])


@pytest.mark.full
def test_platform_counts(lab):
    """What likwid counts is the load, of known length, and little of its own; floating-point operations, of
    which it has none, are the same to the last one, and so is what perf counts of a process."""
    operations, processes, more = set(), set(), []
    for entry in ("native", "msr+nmi"):
        said = cases(boots(lab, entry))
        for case, name, load in (("events", "INSTR_RETIRED_ANY", 2 * ROUNDS + 4),
                                 ("events", "BR_INST_RETIRED_ALL_BRANCHES", ROUNDS),
                                 ("TMA", "UOPS_RETIRED_RETIRE_SLOTS", 2 * ROUNDS + 4)):
            more.append(table_value(said[f"likwid-perfctr/{case}"][1], name) - load)
        operations.add(tuple(line for line in said["likwid-perfctr/FLOPS_DP"][1] if "FP_ARITH" in line))
        processes.add(tuple(line.split(",")[0] for line in said["perf/slots"][1] if "," in line))
    assert 0 < min(more) and max(more) < OWN_MAX, more
    assert len(operations) == 1 and len(max(operations)) == 4, operations
    assert len(processes) == 1 and len(max(processes)) == 4, processes
    return f"{min(more):.0f} to {max(more):.0f} more than the load; perf {', '.join(max(processes))}"


@pytest.mark.full
def test_platform_shares(lab):
    """The four shares of the slots, by perf and by likwid, add up to 100 percent, natively and in the
    guest; half of the instructions of /loop are branches that are taken."""
    told = []
    for entry in ("native", "msr+nmi"):
        said = cases(boots(lab, entry))
        perf = shares(said["perf/topdown_all"][1])
        likwid = [table_value(said["likwid-perfctr/TMA"][1], f"{name} [%]")
                  for name in ("Retiring", "Speculation", "Front End", "Back End")]
        for found in (perf, likwid):
            assert abs(sum(found) - 100) < 0.5 and abs(found[0] - 25) < 0.5, (entry, found)
        # 3 of 4 slots of each second cycle
        assert abs(likwid[2] - 37.5) < 1, likwid
        told.append(f"{entry}: perf " + " ".join(map(str, perf)) + ", likwid " + " ".join(map(str, likwid)))
    return "; ".join(told)


@pytest.mark.full
def test_platform_off(lab):
    """Without the knob turbostat ends at a register that is not there, and likwid finds no energy."""
    said = cases(boots(lab, "msr+nmi", "turbostat/debug,likwid-powermeter/info", 1, name="off",
                       knobs=KNOBS.split("\n")[-2] + "\n"))
    status, lines = said["turbostat/debug"]
    assert status != 0 and "msr offset 0xe2 read failed" in lines[-1], (status, lines)
    assert not any("RAPL domain" in line for line in said["likwid-powermeter/info"][1]), said
    return lines[-1]


@pytest.mark.full
def test_platform_exits_seen(lab):
    """Under intercept, where the PMU's registers exit, the search for such exits finds them."""
    guest = boots(lab, "intercept", "perf/slots", 1, name="intercept")
    with pytest.raises(AssertionError):
        check_exits(guest)
    said = cases(guest)["perf/slots"][1]
    return f"seen; counts: {', '.join(line.split(',')[0] for line in said if ',' in line)}"


@pytest.mark.full
def test_platform_registers(lab):
    """turbostat, likwid and pcm come to their ends and have read the platform's registers; energy counts."""
    said = cases(boots(lab, "msr+nmi"))
    assert table_value(said["likwid-perfctr/ENERGY"][1], "Energy [J]") > 0
    assert any("pkg-cstate-limit=2" in line for line in said["turbostat/debug"][1])
    assert said["turbostat/debug"][0] == said["turbostat/program"][0] == 0
    assert any("SMI count: 0" in line for line in said["pcm/program"][1])
    return f"{len(said)} cases"
