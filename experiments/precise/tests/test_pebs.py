# SPDX-License-Identifier: BSD-2-Clause
# test_pebs.py: precise sampling with Debian's own perf, natively and under PMUvisor, on a processor
# with PEBS (the emulator's knob `pebs`): the same records to the last address, no exit of the PMU,
# the same overhead.
# FULL=1: all of perf's ways to sample, adaptive PEBS, the other policies, Debian's KVM, and
# programs whose shares nobody has chosen.
import collections
import math

import pytest

from testbed.machine import STATUS_POWEROFF, exit_count, instructions, path

pytestmark = pytest.mark.more

REGION_RECORD, REGION_PLAIN, REGION_LARGE, REGION_EACH = 2400, 2401, 2402, 2403
EXIT_CPUID = "10"
LARGE_SHARE, SHARE_POINTS = 5, 1  # percent; of a hundred, between two runs: the kernel has timers
FIXED_COUNTER_0 = "0x0000000100000000"  # of IA32_PEBS_ENABLE
LIMIT = 60_000  # millions of instructions
# In points. Sampled by the full buffer the program ends before the kernel's next tick, sampled one
# by one it does not; a tick alone is some 0.08.
MAX_OVERHEAD_LARGE, MAX_OVERHEAD_EACH = 0.02, 0.3
# Addresses in programs/payload/loop.asm and access.asm do not move: "dec" and the branch of a loop.
LOOP_RECORDS = {"instructions": 199, "cycles": 199, "branches": 99}
# The published shares: LKML, "Enable Guest PEBS via DS", 2021-01-04: guest and host.
FUNCTIONS = ("lfsr_cond", "cmp_end", "start")
# Adaptive PEBS: PMU and model of Ice Lake.
ADAPTIVE = ["pebs 4", "pmu_version 5", "pmu_general_mask 0xff", "pmu_fixed_mask 0xf"]
ICE_LAKE, SAPPHIRE_RAPIDS = "corei7_icelake_u", "sapphire_rapids"
FEW = {"loop", "br_instr"}
CASES = {"loop", "access", "br_instr", "each"}
CASES_ALL = CASES | {"brstack", "prec_dist", "callgraph", "weight", "registers", "mem", "bts"}
IMAGES = {"pebs": "precise", "pebs_real": "precise-real"}
REAL, EVENTS = ("gzip", "glpsol"), ("instructions", "branches")
# Of the difference of two profiles of independent samples: one function of 16,000 is beyond it.
SIGMAS = 4
HELD = 4  # counters (guest/pebs_host.sh)
OTHER_POINTS = 10  # at least so far apart is what another constant makes of br_instr


def sampled(lab, entry, knobs=("pebs 3",), model=None, how="some", name="", more="", job="pebs"):
    boot = lab.emulator(
        f"{job}-{entry}{name}-{how}",
        entry=entry,
        initrd=path(f"build/payload/{IMAGES[job]}-cloud.img"),
        jobs=job,
        knobs="\n".join(knobs) + "\n",
        model=model,
        limit=LIMIT,
        config="console=none",
        append=f"norandmaps pmv.pebs={how}{more}",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status(job) == 0, boot.lines(job)
    return boot


def cases(boot):
    return {row["case"]: row for row in boot.lines("pebs") if "records" in row and "ip" not in row}


def expect_cases(boot, wanted):
    found = cases(boot)
    assert set(found) == wanted, f"cases {sorted(found)}; last line: {boot.last_line()}"
    for name, row in found.items():
        assert int(row["records"]) > 0 and row.get("lost", "0") == "0", (name, row)
    return found


def same_records(native, guest, wanted):
    """Each case: as many records, at the same addresses in the same order, by as many PMIs. But for
    perf mem, which samples by frequency, and what samples the kernel too."""
    rows = []
    for boot in (native, guest):
        expect_cases(boot, wanted)
        rows.append([row for row in boot.lines("pebs") if row.get("case") not in ("mem", "kernel")])
    differing = [pair for pair in zip(*rows) if pair[0] != pair[1]]
    assert len(rows[0]) == len(rows[1]) and not differing, differing[:2]
    return f"{sum(int(row['records']) for row in cases(guest).values())} records"


def work(boot, region):
    account = boot.region(region)
    assert account["begins"] == 1 and not account["open"], region
    return instructions(account)


def overhead(boot, region):
    """perf record's, in percent of the program's own instructions, user and kernel."""
    plain = work(boot, REGION_PLAIN)
    return 100.0 * (work(boot, region) - plain) / plain


def test_native(lab):
    """Linux finds PEBS; every PMI-less record of a loop is at the address that it has to be at."""
    boot = sampled(lab, "native")
    expect_cases(boot, CASES)
    driver = [row["driver"] for row in boot.lines("pebs") if "driver" in row]
    assert driver and driver[0].startswith("PEBS fmt3+, Skylake events"), driver
    found = {}
    for row in boot.lines("pebs"):
        if row.get("case") == "loop" and "ip" in row:
            event = row["event"].split(":")[0]
            found[event] = found.get(event, 0) + int(row["records"])
            # The branch is the second instruction of the loop, and each of its records is at it.
            if event == "branches":
                assert row["ip"] == "401007", row
    assert found == LOOP_RECORDS, found
    assert cases(boot)["loop"]["pmis"] == "0", cases(boot)["loop"]
    each = cases(boot)["each"]
    assert each["pmis"] == each["records"], each
    return ", ".join(f"{event} {n}" for event, n in found.items())


def test_same_records(lab):
    return same_records(sampled(lab, "native"), sampled(lab, "msr+nmi"), CASES)


def test_no_exit(lab):
    """perf's own CPUIDs exit, and nothing else does; while the program runs nothing at all."""
    boot = sampled(lab, "msr+nmi")
    exits = boot.region(REGION_RECORD)["exits"]
    assert set(exits) == {EXIT_CPUID}, exits
    for region in (REGION_LARGE, REGION_EACH):
        account = boot.region(region)
        assert exit_count(account) == 0 and account["pmi"]["nonroot"] > 0, account
    stored = boot.ledger["stored"]
    assert stored["pebs"] > 0 and stored["pebs_root"] == stored["pebs_full"] == 0, stored
    return f"{stored['pebs']} records; {exits[EXIT_CPUID]['count']} CPUIDs in perf record"


@pytest.mark.parametrize(
    ("region", "limit"),
    [(REGION_LARGE, MAX_OVERHEAD_LARGE), (REGION_EACH, MAX_OVERHEAD_EACH)],
    ids=["overhead_large", "overhead_each"],
)
def test_overhead(lab, region, limit):
    native, guest = (overhead(sampled(lab, entry), region) for entry in ("native", "msr+nmi"))
    assert native > 0 and abs(native - guest) <= limit, (native, guest)
    return f"native {native:.2f} %, guest {guest:.2f} %"


def test_shares(lab):
    """The cover letter's comparison: shares of two hot functions, guest and native."""
    found = [
        {
            row["function"]: row["share"]
            for row in sampled(lab, entry).lines("pebs")
            if "function" in row
        }
        for entry in ("native", "msr+nmi")
    ]
    assert found[0] == found[1] and set(found[0]) == set(FUNCTIONS), found
    return ", ".join(f"{name} {share} %" for name, share in found[1].items())


@pytest.mark.full
def test_all_ways(lab):
    """Branch stacks, call chains, weights, registers, precise distribution, perf mem, BTS."""
    return same_records(
        *(sampled(lab, entry, how="all") for entry in ("native", "msr+nmi")), CASES_ALL
    )


@pytest.mark.full
def test_kernel_symbols(lab):
    """Shares of the kernel's functions, by name: those natively."""
    native, guest = (
        {
            (row["mode"], row["function"]): float(row["share"])
            for row in sampled(lab, entry, how="all").lines("pebs")
            if row.get("case") == "kernel"
        }
        for entry in ("native", "msr+nmi")
    )
    large = {
        name for found in (native, guest) for name, share in found.items() if share >= LARGE_SHARE
    }
    assert len([name for name in large if name[0] == "k"]) >= 3, native
    far = {
        name: (native.get(name), guest.get(name))
        for name in large
        if abs(native.get(name, 0) - guest.get(name, 0)) > SHARE_POINTS
    }
    assert not far, far
    return ", ".join(
        f"{name} {guest[mode, name]} % ({native[mode, name]} %)"
        for mode, name in sorted(large, key=lambda one: -native[one])[:5]
    )


@pytest.mark.full
def test_adaptive(lab):
    """Record format 4 with its groups."""
    boots = [
        sampled(lab, entry, ADAPTIVE, ICE_LAKE, "all", "-adaptive")
        for entry in ("native", "msr+nmi")
    ]
    driver = [row["driver"] for row in boots[1].lines("pebs") if "driver" in row]
    assert driver and driver[0].startswith("PEBS fmt4+-baseline, Icelake events"), driver
    return same_records(*boots, CASES_ALL)


@pytest.mark.full
@pytest.mark.parametrize(
    "policy", ["msr", "intercept"], ids=["other_policy_msr", "other_policy_intercept"]
)
def test_other_policies(lab, policy):
    """The same records at more exits."""
    boot = sampled(lab, policy)
    same_records(sampled(lab, "native"), boot, CASES)
    account = boot.region(REGION_EACH)
    pmis = int(cases(boot)["each"]["pmis"])
    assert exit_count(account) >= pmis, account["exits"]
    return (
        f"{exit_count(account) / pmis:.1f} exits for a PMI, "
        f"overhead {overhead(boot, REGION_EACH):.2f} %"
    )


# Of the suite whose kernel is the host's; of the newest one also with its mediated vPMU.
KVMS = {
    "kvm": ("", ""),
    "kvm-new": ("trixie-backports", ""),
    "kvm-mediated": ("trixie-backports", "pmv.mediated=1 "),
}


@pytest.mark.full
@pytest.mark.parametrize("column", KVMS, ids=[f"offers_none_{column}" for column in KVMS])
def test_kvm_offers_none(lab, column):
    """KVM offers PEBS on a processor whose PEBS copes with EPT, and on no other."""
    suite, words = KVMS[column]
    host = f"{suite}-" if suite else ""
    boot = lab.emulator(
        f"pebs-{column}",
        entry="native",
        jobs="cpuinfo,kvm",
        memory=1024,
        kernel=lab.kernel("cloud", suite),
        initrd=path(f"build/payload/kvm-small-{host}cloud.img"),
        knobs="pebs 3\n",
        append=f"{words}pmv.kvm=cpuinfo",
        limit=LIMIT,
    )
    boot.expect_status(STATUS_POWEROFF)
    drivers = [line for line in boot.console.splitlines() if "Performance Events:" in line]
    assert len(drivers) == 2 and "PEBS fmt3+" in drivers[0] and "PEBS" not in drivers[1], drivers


def on_sapphire_rapids(lab, column, around="", hold=False, job="pebs"):
    """The boot of the job with the few cases, on the model whose PEBS KVM offers to its guest.
    `around`: what its host does meanwhile; `hold`: and it takes four counters for itself."""
    if column not in KVMS:
        return sampled(
            lab, column, ADAPTIVE, SAPPHIRE_RAPIDS, "few", "-sapphire", " no5lvl", job=job
        )
    suite, words = KVMS[column]
    boot = lab.emulator(
        f"{job}-own-{column}{around and '-'}{around}{'-hold' if hold else ''}",
        entry="native",
        jobs="kvm",
        memory=1024,
        kernel=lab.kernel("cloud", suite),
        model=SAPPHIRE_RAPIDS,
        initrd=path(f"build/payload/kvm-{IMAGES[job]}-{suite}{'-' if suite else ''}cloud.img"),
        knobs="\n".join(ADAPTIVE) + "\n",
        limit=LIMIT,
        append=f"{words}norandmaps no5lvl pmv.kvm={job} pmv.pebs=few"
        f"{around and ' pmv.kvm_around='}{around}{' pmv.pebs_host=hold' if hold else ''}",
    )
    boot.expect_status(STATUS_POWEROFF)
    return boot


@pytest.mark.full
def test_kvm_own(lab):
    """KVM's own guest PEBS. Linux 7.3 has it where the vPMU is not mediated, and without adaptive
    PEBS: then fixed counters have none, and the guest's write of one is refused. On a general
    counter its records are the machine's, at a PMI, and exits, for each. Under PMUvisor both are
    the machine's, without an exit for the PMU.
    """
    native, ours, *kvms = (
        on_sapphire_rapids(lab, column) for column in ("native", "msr+nmi", *KVMS)
    )
    same_records(native, ours, FEW)
    assert set(ours.region(REGION_RECORD)["exits"]) == {EXIT_CPUID}, ours.region(REGION_RECORD)[
        "exits"
    ]
    offered = {
        column: " PEBS" in f" {boot.lines('pebs')[0]['driver']}" for column, boot in zip(KVMS, kvms)
    }
    assert offered == {"kvm": False, "kvm-new": True, "kvm-mediated": False}, offered
    theirs = kvms[1]
    assert [row["refused"] for row in theirs.lines("pebs") if "refused" in row] == [
        FIXED_COUNTER_0
    ], theirs.lines("pebs")
    own, machines = cases(theirs), cases(native)
    assert (
        own["loop"]["records"] == "0"
        and own["br_instr"]["digest"] == machines["br_instr"]["digest"]
    ), own
    records, exits = int(own["br_instr"]["pmis"]), exit_count(theirs.region(REGION_RECORD))
    assert records == int(machines["br_instr"]["records"]) and exits > 5 * records, (records, exits)
    return (
        f"{records} records, each a PMI, {exits} exits; fixed counter: "
        f"{machines['loop']['records']} natively, 0"
    )


@pytest.mark.full
def test_kvm_host_too(lab):
    """Host and guest exclude each other: while KVM's host samples precisely, its guest has no
    record."""
    alone, both = (on_sapphire_rapids(lab, "kvm-new", around) for around in ("", "pebs_host"))
    own = int(cases(alone)["br_instr"]["records"])
    guest, host = int(cases(both)["br_instr"]["records"]), int(
        both.lines("pebs_host")[0]["records"]
    )
    assert own > 0 and guest == 0 and host > 0, (own, guest, host)
    return f"guest alone {own} records; with the host's {host} the guest has {guest}"


@pytest.mark.full
def test_kvm_cross_mapped(lab):
    """The letter's slow path: the guest's counter is another one of the processor's, because the
    host holds the first four. Linux does not rewrite such records, as the letter's last patches do:
    there are none."""
    alone, held = (
        on_sapphire_rapids(lab, "kvm-new", *around) for around in ((), ("pebs_host", True))
    )
    counted = [int(row["stores"]) for row in held.lines("pebs_host")[1:]]
    own, guest = (int(cases(boot)["br_instr"]["records"]) for boot in (alone, held))
    assert len(counted) == HELD and min(counted) > 0, (counted, held.last_line())
    assert own > 0 and guest == 0, (own, guest)
    # The ledger has no line of what was stored where nothing was.
    assert alone.ledger["stored"]["pebs"] == own and "stored" not in held.ledger, held.ledger
    return f"alone {own} records; with {HELD} counters held {guest}"


def profile(boot, program, event):
    """{function: records}, and the digest of the addresses."""
    rows = [
        row
        for row in boot.lines("pebs")
        if row.get("program") == program and row.get("event") == event
    ]
    assert rows and rows[0]["lost"] == "0", (program, event, boot.last_line())
    return (
        collections.Counter({row["function"]: int(row["records"]) for row in rows[1:]}),
        rows[0]["digest"],
    )


def beyond_chance(one, other):
    """Functions whose shares are farther apart than those of two independent samples."""
    total, found = (one.total(), other.total()), {}
    for name in one | other:
        share = (one[name] + other[name]) / sum(total)
        spread = math.sqrt(share * (1 - share) * (1 / total[0] + 1 / total[1]))
        if abs(one[name] / total[0] - other[name] / total[1]) > SIGMAS * spread:
            found[name] = one[name], other[name]
    return found


def refusals(boot):
    return [row for row in boot.lines("pebs") if "refused" in row]


def untuned(lab, column):
    return on_sapphire_rapids(lab, column, job="pebs_real")


@pytest.mark.full
@pytest.mark.parametrize("program", REAL, ids=[f"untuned_{name}" for name in REAL])
def test_untuned(lab, program):
    """Debian's programs: by branches the same records natively and under msr+nmi. By instructions
    they are shifted by the CPUIDs of the C library's start, which exit; and KVM's guest has fewer
    CPUIDs. There shares are as near as chance allows. In KVM's guest, which has no adaptive PEBS,
    Linux does not sample branches precisely."""
    native, ours, theirs = (untuned(lab, column) for column in ("native", "msr+nmi", "kvm-new"))
    said, refused = [], [len(refusals(boot)) for boot in (native, ours, theirs)]
    assert refused == [0, 0, 1], refused
    for event in EVENTS:
        boots = (native, ours) if event == "branches" else (native, ours, theirs)
        found = [profile(boot, program, event) for boot in boots]
        assert event != "branches" or found[0] == found[1], found[:2]
        for other, _ in found[1:]:
            assert not beyond_chance(found[0][0], other), beyond_chance(found[0][0], other)
        (most, _), *_ = found[0][0].most_common(1)
        said.append(
            f"{event}: {most} "
            + ", ".join(f"{100 * one[most] / one.total():.2f} %" for one, _ in found)
        )
    assert beyond_chance(
        profile(native, "gzip", "branches")[0], profile(native, "glpsol", "branches")[0]
    ), "profiles of two programs are alike"
    return "natively, msr+nmi, KVM 7.3: " + "; ".join(said)


@pytest.mark.full
def test_constants(lab):
    """br_instr with another constant has other shares: the same ones natively, under msr+nmi and in
    KVM's guest. So that br_instr's own are near the letter's says nothing."""
    boots = [untuned(lab, column) for column in ("native", "msr+nmi", "kvm-new")]
    found = [profile(boot, "br_other", "instructions") for boot in boots]
    assert all(one == found[0] for one in found), found
    counts = found[0][0]
    share = {name.partition("(")[0]: 100 * n / counts.total() for name, n in counts.items()}
    default = {
        row["function"]: float(row["share"])
        for row in on_sapphire_rapids(lab, "native").lines("pebs")
        if "function" in row
    }
    assert set(share) == set(default) == set(FUNCTIONS), (share, default)
    assert abs(share["lfsr_cond"] - default["lfsr_cond"]) > OTHER_POINTS, (share, default)
    return ", ".join(f"{name} {share[name]:.2f} % ({default[name]:.2f} %)" for name in FUNCTIONS)
