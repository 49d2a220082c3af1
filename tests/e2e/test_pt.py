# SPDX-License-Identifier: BSD-2-Clause
# test_pt.py: Intel PT in the emulator (the knob `pt`): Linux's driver finds it, and Debian's own
# perf records and decodes. Each branch that perf says is one of the emulator's own list, and the
# other way.
import struct

import pytest

from testbed.machine import STATUS_POWEROFF, STATUS_TEXT, instructions, path
from tests.e2e import kernel, pt_decoders
from tests.e2e.policies import NMI
from tests.e2e.test_kernel import expect_sweep, path_length

REGIONS = {
    "user": 3300,
    "kernel": 3301,
    "both": 3302,
    "noretcomp": 3303,
    "cyc": 3304,
    "small": 3305,
    "each": 3306,
    "exec": 3307,
    "untraced": 3308,
}
# The emulator's list: testbed/README.md, "Knobs".
RECORD = struct.Struct("<QQQBBBBI")
CONDITIONAL, FAR, EVENT, BEGIN, END = 0, 6, 16, 17, 18
USER_BEFORE, USER_AFTER = 2, 4
NONE = 0
CASES = ["user", "noretcomp", "cyc", "small", "kernel", "both"]
LEAF = {
    "topa_output": "1",
    "topa_multiple_entries": "1",
    "single_range_output": "1",
    "mtc": "1",
    "psb_cyc": "1",
    "ip_filtering": "1",
    "cr3_filtering": "1",
    "num_address_ranges": "2",
    "mtc_periods": "249",
    "cycle_thresholds": "1fff",
    "psb_periods": "3f",
    "ptwrite": "0",
}
INSTRUCTION_MAX = 15  # bytes
PIE = 1 << 32
ACCESSES = ("vmread", "vmwrite", "rdmsr", "wrmsr")
LIMIT = 60_000  # millions of instructions


ENTRIES = [
    "native",
    "msr+nmi",
    *(pytest.param(policy, marks=pytest.mark.full) for policy in ("msr", "intercept")),
]


def boot(lab, name, cases, entry="native", knobs="", append="", **more):
    return lab.emulator(
        f"pt-{name}",
        entry=entry,
        initrd=path("build/payload/pt-cloud.img"),
        jobs="pt",
        knobs=f"pt on\nbranch_trace 3300-3399 branches\nguest_files guest\n{knobs}",
        append=f"norandmaps pmv.pt={','.join(cases)} {append}",
        config="console=none",
        limit=LIMIT,
        **more,
    )


def exact(done, region, processor=None):
    """The emulator's own list of a region: (from, to, kind, flags) of each, on one processor or on
    all."""
    inside, found = False, []
    with open(done.path("branches"), "rb") as source:
        for at, to, _, kind, flags, _, where, _ in RECORD.iter_unpack(source.read()):
            if processor not in (None, where):
                continue
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


def of_traced(records):
    """Without what other programs of the guest did in between: Linux may run perf when its buffer
    is half full. They are PIE and lie above /traced, which is static and calls nothing of the
    vDSO's."""
    return [
        (at, to, kind, flags)
        for at, to, kind, flags in records
        if not (flags & USER_BEFORE and at >= PIE or flags & USER_AFTER and to >= PIE)
    ]


def compare(found, wanted, what):
    """`wanted` is within `found`, without a gap but for exits, where a guest's trace ends and
    begins again: the number of branches, and of exits."""
    assert wanted, what
    start = next((n for n in range(len(found)) if found[n : n + 8] == wanted[:8]), None)
    assert (
        start is not None
    ), f"{what}: {[tuple(map(hex, pair)) for pair in wanted[:8]]} is not there"
    exits = 0
    for number, pair in enumerate(wanted):
        got = found[start] if start < len(found) else None
        while got != pair and is_exit(found[start : start + 2]):
            exits += 1
            start += 2
            got = found[start] if start < len(found) else None
        assert got == pair, f"{what}: branch {number} of {len(wanted)}: {got}, wanted {pair}"
        start += 1
    return len(wanted), exits


def is_exit(pairs):
    """The trace ends, and goes on at the same instruction, or at the next."""
    (at, none), (_, back) = pairs if len(pairs) == 2 else ((0, 1), (0, 0))
    return none == NONE and pairs[1][0] == NONE and 0 <= back - at <= INSTRUCTION_MAX


def both_decoders(done, case, wanted, scratch, processor=None):
    """Compares with the list of each; `scratch` None: of perf alone."""
    assert done.ledger["stored"].get("pt_lost", 0) == 0, done.ledger["stored"]
    found = compare(pt_decoders.perf(done, case, processor), wanted, f"{case}, perf")
    if scratch is not None:
        other = compare(
            pt_decoders.libipt(done, case, scratch, processor or 0), wanted, f"{case}, libipt"
        )
        assert other == found, f"libipt: {other}, perf: {found}"
    return found


def row(done, case):
    found = [line for line in done.lines("pt") if line.get("case") == case and "branches" in line]
    assert len(found) == 1, f"{case}: {done.lines('pt')[-5:]}; last line: {done.last_line()}"
    return found[0]


def prices(done, case):
    """Of a branch: bytes; instructions to record it, all that the same work does more than
    untraced; and of user mode to decode it by perf."""
    found = row(done, case)
    more = instructions(done.region(REGIONS[case])) - instructions(done.region(REGIONS["untraced"]))
    count = int(found["branches"])
    return {
        "bytes": round(int(found["bytes"]) / count, 2),
        "recording": round(more / count, 2),
        "decoding": round(int(found["decoding"]) / count),
    }


def compare_user(done, scratch=None):
    """The case user of a boot: the number of branches, and of exits."""
    return both_decoders(
        done, "user", list(in_mode(exact(done, REGIONS["user"]), True, False)), scratch
    )


@pytest.mark.more
@pytest.mark.parametrize("entry", ENTRIES)
def test_driver(lab, entry):
    """Linux finds what leaf 14H says."""
    done = boot(lab, entry, CASES, entry, append="pmv.rounds=6")
    done.expect_status(STATUS_POWEROFF)
    shown = {line["capability"]: line["value"] for line in done.lines("pt") if "capability" in line}
    assert {name: shown.get(name) for name in LEAF} == LEAF, shown


@pytest.mark.more
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", CASES)
def test_branches(lab, case, entry, tmp_path):
    """What perf decodes is the emulator's own list, branch by branch: of user mode with and without
    return compression, with CYC, with a buffer that fills; of the kernel; of both. So is what
    libipt decodes of user mode."""
    done = boot(lab, entry, CASES, entry, append="pmv.rounds=6")
    found = row(done, case)
    assert found["errors"] == "0", found
    user, kernel = case != "kernel", case in ("kernel", "both")
    records = of_traced(exact(done, REGIONS[case]))
    wanted = list(in_mode(records, user, kernel))
    count, exits = both_decoders(done, case, wanted, None if kernel else tmp_path)
    # A branch too many in the list, or too few, is found.
    for wrong in (wanted[:9] + wanted[10:], wanted[:9] + wanted[8:]):
        with pytest.raises(AssertionError):
            compare(pt_decoders.perf(done, case), wrong, case)
    if case == "small":
        assert int(found["pmis"]) > 0, found
    assert (exits > 0) == (entry != "native" and user), exits  # of CPUID, at CPL 3
    if entry == "msr+nmi":
        assert NMI not in done.ledger["exits"], done.ledger["exits"]
    return f"{count} branches, {exits} exits, {found['pmis']} PMIs, {found['bytes']} bytes"


@pytest.mark.more
def test_off(lab):
    """Without the knob there is no such PMU, and no byte of a trace."""
    done = lab.emulator(
        "pt-off",
        entry="native",
        initrd=path("build/payload/pt-cloud.img"),
        jobs="pt",
        append="pmv.pt=user",
    )
    assert "no intel_pt" in done.console, done.last_line()
    assert "pt" not in done.ledger.get("stored", {}), done.ledger["stored"]


PROCESSORS = 4


@pytest.mark.full
@pytest.mark.parametrize("entry", ["native", "msr+nmi"])
@pytest.mark.parametrize("processor", range(PROCESSORS))
@pytest.mark.parametrize("case", ["each", "exec"])
def test_processors(lab, case, entry, processor, tmp_path):
    """The same work on four processors at once, each 100,000 branches: `perf record -a`, and of one
    program's processes alone, which fork and exec. libipt has no list of the former: all that ran
    is in that trace.
    """
    done = boot(
        lab,
        f"{case}-{entry}",
        [case],
        entry,
        append="pmv.rounds=60",
        cpus=PROCESSORS,
        memory=1024,
        knobs="tsc_hz 500000000\n",
    )
    assert row(done, case)["errors"] == "0", row(done, case)
    wanted = list(in_mode(exact(done, REGIONS[case], processor), True, False))
    count, exits = both_decoders(
        done, case, wanted, tmp_path if case == "exec" else None, processor
    )
    assert count >= 100_000, count
    return f"{count} branches, {exits} exits"


KERNEL = ["pt-exits", "pt-hidden", "pt-breakpoint", "pt-pmi"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_kernel(lab, entry):
    """A guest's trace ends at each exit, and says nothing of VMX; none goes to hidden memory; each
    full region is one NMI, with skids of up to 64 instructions over the exits."""
    done = kernel.run(
        lab,
        f"pt-kernel-{entry}",
        kernel.Plan("pt on", f"pmi_skid sweep/{kernel.SKIDS}").add(*KERNEL),
        entry=entry,
    )
    kernel.expect_ok(done, KERNEL)
    rows = {line["name"]: line for line in done.lines("pt") if "name" in line}
    assert int(rows["pt-hidden"]["pages"]) > (500 if entry != "native" else -1), rows
    assert done.ledger["stored"].get("pt_root", 0) == 0, done.ledger["stored"]
    pmi = done.ledger["pmi"]
    if entry != "native":
        assert pmi["raised"] - pmi["nonroot"] > 0, f"none came in root mode: {pmi}"
    if entry == "msr+nmi":
        assert NMI not in done.ledger["exits"], done.ledger["exits"]
    return f"{rows['pt-hidden']['pages']} pages, {rows['pt-pmi']['nmis']} PMIs, {pmi}"


HIDDEN_POSITIONS, HIDDEN_MIN = 260, 350  # longer than the path; NMIs
CONTEXT = 7  # registers: the output's two, CR3_MATCH, and two for each of two address ranges


def test_context(lab):
    """The full switch has them: of host work that records, and of a second guest; without it each
    has the second guest's value."""
    names = ["context:records", "context:guest", "context:bare"]
    found = {}
    for pt in ("on", "off"):
        done = kernel.run(
            lab,
            f"pt-context-{pt}",
            kernel.Plan("pt on").add(*names),
            config=f"pt={pt}",
            efi=path("build", "test", "pmuvisor.efi"),
        )
        rows = {line["name"]: line for line in done.lines("context")}
        found[pt] = [
            {key: int(rows[name][key]) for key in ("checked", "kept", "others")} for name in names
        ]
        for one in found[pt][:2]:
            assert one["kept"] == one["checked"] > 0, f"{found}; {kernel.notes(done)}"
        assert found[pt][2]["others"] == found[pt][2]["checked"], found
    more = {on["checked"] - off["checked"] for on, off in zip(found["on"], found["off"])}
    assert more == {CONTEXT}, found
    return f"{CONTEXT} registers more than the {found['off'][0]['checked']} without Intel PT"


# Policy, reason and how often a page has such an exit: an EPT violation when it is read, at the
# first packet, and at the entry after that; a WRMSR for each register where these exit, the last
# but one of which turns the trace on.
HIDDEN = {"msr+nmi": (48, 3), "msr": (48, 3), "intercept": (48, 3), "intercept-wrmsr": (32, 5)}


def hidden_nmis(lab, name, **more):
    """NMIs at each root instruction of these exits, and how many the guest had. Of two without an
    instruction between them it would have one, so they are further apart than the exits of a
    page."""
    reason, each = HIDDEN[name]
    plan = kernel.Plan(
        "pt on",
        *(
            f"nmi_root reason={reason} exits={1 + (each + 1) * n} position={1 + n // each}"
            for n in range(each * HIDDEN_POSITIONS)
        ),
    )
    done = kernel.run(
        lab,
        f"pt-hidden-nmis-{name}",
        plan.add(*["pt-hidden"] * 2),
        entry=name.split("-")[0],
        **more,
    )
    nmis = sum(int(line["nmis"]) for line in done.lines("pt") if "name" in line)
    return done, done.ledger["scheduled_nmis"]["fired"], nmis


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_nmis(lab, name):
    """The next entry is to deliver the NMI, and may meet the refused page first. Each comes
    once."""
    done, fired, nmis = hidden_nmis(lab, name)
    kernel.expect_ok(done, ["pt-hidden"])
    assert nmis == fired > HIDDEN_MIN, (nmis, done.ledger["scheduled_nmis"])
    return f"{fired} NMIs"


def inject(lab, entry, name="pmuvisor"):
    image = path("build", "test", f"{name}.efi")
    done = kernel.run(
        lab, f"pt-injected-{entry}", kernel.Plan("pt on").add("pt-inject"), entry=entry, efi=image
    )
    kernel.expect_ok(done, ["pt-inject"])
    found = next(line for line in done.lines("pt") if "name" in line)
    assert int(found["pages"]) > 500, found
    return f"{found['pages']} NMIs"


@pytest.mark.parametrize("entry", ["msr+nmi", "msr"])
def test_injected(lab, entry):
    """The entry meets the refused page before it injects an NMI: that is delivered by the next one,
    once."""
    return inject(lab, entry)


def test_shadowed(lab):
    """The same where the processor had begun to deliver the NMI in a shadow."""
    return inject(lab, "msr", "mutants/nmi_in_shadow")


def sweep_boot(lab, name="on", words=("pt-on",)):
    plan = kernel.Plan("pt on").add(*words, "cpuid")
    plan.sweep("sweep", *kernel.KINDS).sweep("sweep-blocked", *kernel.KINDS)
    return kernel.run(lab, f"pt-sweep-{name}", plan.add(*(["pt-still-on"] if words else [])))


@pytest.mark.parametrize("kind", kernel.KINDS)
@pytest.mark.parametrize("test", ["sweep", "sweep-blocked"])
def test_sweep(lab, test, kind):
    """One NMI at each root instruction of an exit, while the guest is traced."""
    done = sweep_boot(lab)
    kernel.expect_ok(done, ["pt-on", "pt-still-on"])
    assert done.ledger["stored"]["pt"] > 0 and done.ledger["stored"].get("pt_root", 0) == 0
    return expect_sweep(done, test, kind, 1)


def test_exit_path(lab):
    """An exit with the guest traced costs what it costs without."""
    traced, plain = sweep_boot(lab), sweep_boot(lab, "off", ())
    costs = []
    for done in (traced, plain):
        lengths = [
            path_length(done, test, kind)
            for test in ("sweep", "sweep-blocked")
            for kind in kernel.KINDS
        ]
        root = done.region(kernel.REGION_CPUID)["root"]
        costs.append((lengths, {name: root[name] for name in ACCESSES}))
    assert costs[0] == costs[1], costs
    assert costs[0][0][0] == kernel.CPUID_COST[0], costs
    return f"{costs[0][0]} instructions; {costs[0][1]}"


# A bit for each of kernel.LEFT_OUT: which is left out, and what is seen then.
LESS = {
    "conceal": 1,
    "guest_physical": 2,
    "clear_alone": 8,
    "load_alone": 32,
    "clear": 2 + 8,
    "conceal_exits": 2 + 4 + 8,
    "conceal_entries": 2 + 8 + 16,
}
STOPPED_TEXT = "---- stopped ----"


@pytest.mark.parametrize("what", LESS)
def test_left_out(lab, what):
    """Without one of VMX's controls for it something else comes of these tests, or of the
    machine."""
    plan = kernel.Plan("pt on", f"msr 0xfff {LESS[what]}").add("pt-exits", "pt-hidden")
    done = kernel.run(lab, f"pt-less-{what}", plan, efi=kernel.LEFT_OUT, until=STOPPED_TEXT)
    stored = done.ledger.get("stored", {})
    seen = [
        word
        for word, found in (
            ("the start fails", STOPPED_TEXT in done.console),
            ("pt-exits", "not ok 1" in done.console),
            ("pt-hidden", "not ok 2" in done.console),
            ("root mode is traced", stored.get("pt_root", 0) > 0),
            ("the hypervisor is overwritten", done.status not in (STATUS_POWEROFF, STATUS_TEXT)),
        )
        if found
    ]
    assert seen, done.console[-600:]
    return ", ".join(seen)


def test_nothing_left_out(lab):
    done = kernel.run(
        lab,
        "pt-less-nothing",
        kernel.Plan("pt on", "msr 0xfff 0").add("pt-exits", "pt-hidden"),
        efi=kernel.LEFT_OUT,
    )
    kernel.expect_ok(done, ["pt-exits", "pt-hidden"])


def many(lab, entry):
    return boot(lab, f"many-{entry}", ["user"], entry, append="pmv.rounds=540")


@pytest.mark.full
@pytest.mark.parametrize("entry", ["native", "msr+nmi"])
def test_many(lab, entry, tmp_path):
    """A million branches, which perf writes piece by piece, by both decoders."""
    done = many(lab, entry)
    assert row(done, "user")["errors"] == "0", row(done, "user")
    count, exits = compare_user(done, tmp_path)
    assert count >= 1_000_000, count
    if entry == "msr+nmi":
        assert NMI not in done.ledger["exits"], done.ledger["exits"]
    return f"{count} branches, {exits} exits, {prices(done, 'user')}"


# KVM of these kernels, and what its module is asked for.
KVMS = {
    "6.1": ("", ""),
    "6.1, pt_mode=1": ("", "pmv.pt_mode=1 "),
    "7.3": ("trixie-backports", ""),
    "7.3, pt_mode=1": ("trixie-backports", "pmv.pt_mode=1 "),
}


def under_kvm(lab, column):
    suite, words = KVMS[column]
    return lab.emulator(
        f"pt-kvm-{list(KVMS).index(column)}",
        entry="native",
        jobs="kvm",
        memory=1024,
        limit=LIMIT,
        kernel=lab.kernel("cloud", suite),
        initrd=path(f"build/payload/kvm-pt-{suite}{'-' if suite else ''}cloud.img"),
        knobs="pt on\nbranch_trace 3300-3399 branches\nguest_files guest\n",
        append=f"{words}norandmaps pmv.kvm=pt pmv.pt=user pmv.rounds=6",
    )


@pytest.mark.full
@pytest.mark.parametrize("column", KVMS)
def test_kvm(lab, column):
    """KVM's guest has no Intel PT on the same machine: Linux marks that mode broken, and its module
    has no parameter for it, whether it is asked for or not."""
    done = under_kvm(lab, column)
    done.expect_status(STATUS_POWEROFF)
    settings = done.lines("kvm")[0]
    assert settings["pt_mode"] == "-", settings
    assert [line["error"].split(":")[0] for line in done.lines("pt")] == [
        "no intel_pt"
    ], done.lines("pt")
    return f"{settings['release']}: no intel_pt in the guest"
