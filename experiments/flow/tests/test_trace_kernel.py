# SPDX-License-Identifier: BSD-2-Clause
# test_trace_kernel.py: the flow trace in the test kernel: each record, what levels cost, that
# interrupts come in the local APIC's order under flow, and NMIs at each instruction of its exits.
import pytest

from testbed.machine import exit_count, path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok
from tests.e2e.test_kernel import expect_sweep

CPUS = 4
TSC = "tsc_hz 500000000"
TRACE = ["trace", "trace-wrap"]
WIRED = ["extint", "low-vectors", "smp-wired-low"]
FLOW = ["trace", "trace-flow", "trace-wrap", *WIRED]
PMI = ["pmi", "self", "blocked", "sti", "movss", "hlt"]

# tests/kernel/trace.h, enum trace_region.
REGION_TRACE = 1701
REGION_TRACE_OFF = 1702
CPUID = "10"
OFF_COST = kernel.CPUID_COST
TRACE_COST = (144, 8)

# tests/kernel/test_trace_sweep.c: the exits that flow adds, each with its reason and the first exit
# of its sweep. Those before it make exits of the same reasons.
REGION_SWEEP = 1710
SWEEPS = {
    "interrupt": (1, 101),
    "blocked": (1, 501),
    "window": (7, 1001),
    "hlt": (12, 101),
    "cr3": (28, 101),
}
POSITIONS = 220  # more than any of these exits has instructions
WIRED_NMIS = 600  # more than one has whose interrupt is taken for an NMI

# COUNT:PERIOD of PMIs:SEED. On one processor the period is that of PMIs alone.
INTERRUPTS = ["smp-interrupts:1500", "smp-interrupts:1500:3000:1"]
MILLION = ["smp-interrupts:125000:0:2", "smp-interrupts:125000:3000:3"]
LIMIT = 20000  # millions of instructions


def exits(lab, entry="msr+nmi", config=""):
    name = "-".join(["trace-exits", entry, config]).strip("-")
    words = [*PMI[:1], *TRACE, "x2apic", *PMI[:1], *TRACE]
    return kernel.run(lab, name, Plan().add(*words), entry=entry, config=f"trace=exits {config}")


def flow(lab, entry="msr+nmi", config=""):
    name = "-".join(["trace-flow", entry, config]).strip("-")
    words = [*PMI, *FLOW, "x2apic", *PMI, *FLOW]
    return kernel.run(lab, name, Plan().add(*words), entry=entry, config=f"trace=flow {config}")


def interrupts(lab, cpus, words, entry="msr+nmi", config="trace=flow", efi=None, name=""):
    name = name or f"trace-interrupts-{entry}-{cpus}-{len(words)}-{words[0]}".replace(":", "-")
    return kernel.run(
        lab,
        name,
        Plan(TSC).add(*words),
        entry=entry,
        cpus=cpus,
        config=config,
        efi=efi,
        limit=LIMIT,
    )


def both_modes(words):
    return words + ["smp-x2apic"] + words


def check_interrupts(lab, cpus, words, **more):
    boot = interrupts(lab, cpus, words, **more)
    expect_ok(boot, words)
    rows = boot.lines("interrupts")
    taken = sum(int(row["taken"]) for row in rows)
    nmis = sum(int(row["nmis"]) for row in rows)
    assert sum(int(row["pmis"]) for row in rows) > 0, rows
    if "entry" not in more:
        # Each interrupt was traced: under flow none goes past the hypervisor.
        exits_there = boot.ledger["exits"]
        assert exits_there["1"]["count"] + exits_there["7"]["count"] >= taken, exits_there
    return f"{taken} interrupts, {nmis} NMIs"


def sweeps(lab, entry, efi=None, name=""):
    knobs = [
        f"nmi_root reason={reason} exits={first}-{first + POSITIONS - 1} position=sweep"
        for reason, first in SWEEPS.values()
    ]
    plan = Plan(*knobs).add(
        *(f"sweep-flow:{kind}:{first}:{POSITIONS}" for kind, (_, first) in SWEEPS.items())
    )
    return kernel.run(
        lab, name or f"trace-sweep-{entry}", plan, entry=entry, config="trace=flow", efi=efi
    )


def check_sweeps(boot):
    """The sweeps passed, and each instruction of each path had its NMI."""
    said = []
    for number, (kind, (reason, first)) in enumerate(SWEEPS.items()):
        name = f"sweep-flow:{kind}:{first}:{POSITIONS}"
        expect_ok(boot, [name])
        row = next(row for row in boot.lines("sweep") if row["name"] == name)
        path = boot.region(REGION_SWEEP + number)["exits"][str(reason)]["root_instructions"]
        assert path["min"] == path["max"] == int(row["delivered"]), f"{row}: path {path}"
        said.append(f"{kind} {row['delivered']}")
    return "positions: " + ", ".join(said)


def cost(boot, region):
    spread = boot.region(region)["exits"][CPUID]
    root, vmcs = spread["root_instructions"], spread["vmcs_accesses"]
    assert root["min"] == root["max"] and vmcs["min"] == vmcs["max"], spread
    return root["max"], vmcs["max"]


def test_exits(lab):
    """trace=exits: each exit has one record that is right in each field; off, there is none."""
    expect_ok(exits(lab), TRACE)


def test_flow(lab):
    """trace=flow: HLT, loads of CR3 and interrupts as well, and they do what they do natively."""
    expect_ok(flow(lab), FLOW + PMI)


@pytest.mark.full
def test_policies(lab):
    """The same under the other policies, and with a trapped local APIC."""
    for entry, config in (("msr", ""), ("intercept", ""), ("msr+nmi", "apic=trap")):
        expect_ok(exits(lab, entry, config), TRACE)
        if not config:  # there, each access of the local APIC is a record between the others
            expect_ok(flow(lab, entry, config), FLOW + PMI)


def test_extint_native(lab):
    """Interrupts of the 8259, and of exceptions' vectors, come natively as in the guest."""
    boot = kernel.run(lab, "trace-extint", Plan().add(*WIRED, "x2apic", *WIRED), entry="native")
    expect_ok(boot, WIRED)


def test_wired_nmi(lab):
    """An NMI at each root instruction around an 8259's vector 2, which blocks none: it goes on."""
    words = [f"smp-wired-nmi:{WIRED_NMIS}"]
    plan = Plan(f"nmi_root reason=1 exits=1-{WIRED_NMIS} position=sweep").add(*words)
    boot = kernel.run(lab, "trace-wired-nmi", plan, config="trace=flow")
    expect_ok(boot, words)
    return boot.console[boot.console.index("NMIs: ") :].splitlines()[0]


def test_off(lab):
    """trace=off: no hypercall, no ring, and the cost of an exit that it had."""
    boot = kernel.run(lab, "trace-off", Plan().add("trace:none", "cpuid"))
    expect_ok(boot, ["trace:none", "cpuid"])
    assert cost(boot, 1001) == OFF_COST, cost(boot, 1001)


def test_cost(lab):
    """An exit that is recorded costs no more than it may; turned off, what it costs with none."""
    for boot in (exits(lab), flow(lab)):
        off, there = cost(boot, REGION_TRACE_OFF), cost(boot, REGION_TRACE)
        assert off == OFF_COST, f"turned off: {off}, wanted {OFF_COST}"
        assert there[0] <= TRACE_COST[0] and there[1] <= TRACE_COST[1], there
    return f"root instructions and VMCS accesses of a CPUID exit: {there}, turned off {off}"


def test_no_exits(lab):
    """PMIs take no exit at any level, as without the trace."""
    for boot in (exits(lab), flow(lab)):
        region = boot.region(kernel.REGION_PMI)
        assert exit_count(region) == 0 and region["pmi"]["raised"] > 0, region["exits"]
        assert region["pmi"]["raised"] == region["pmi"]["nonroot"], region["pmi"]


def test_sweep_exits(lab):
    """An NMI at each root instruction of an exit that is recorded: taken once each."""
    plan = Plan().sweep("sweep", *kernel.KINDS).sweep("sweep-blocked", "cpuid")
    boot = kernel.run(lab, "trace-sweep-exits", plan, config="trace=exits")
    said = [expect_sweep(boot, "sweep", kind, 1) for kind in kernel.KINDS]
    return ", ".join(said + [expect_sweep(boot, "sweep-blocked", "cpuid", 1)])


@pytest.mark.parametrize("entry", ["msr+nmi", "msr"], ids=["sweep_flow", "sweep_flow_msr"])
def test_sweep(lab, entry):
    """The same for the exits that flow adds, where root mode has interrupts on, too."""
    return check_sweeps(sweeps(lab, entry))


@pytest.mark.parametrize("cpus", [1, CPUS], ids=["interrupts_native_1", "interrupts_native_4"])
def test_interrupts_native(lab, cpus):
    """The order of interrupts as the local APIC has it natively: the reference."""
    return check_interrupts(lab, cpus, INTERRUPTS, entry="native", config="")


@pytest.mark.parametrize("cpus", [1, CPUS], ids=["interrupts_1", "interrupts_4"])
def test_interrupts(lab, cpus):
    """Under flow: none lost, doubled, out of order, or in a place where it may not come."""
    return check_interrupts(lab, cpus, both_modes(INTERRUPTS))


@pytest.mark.full
@pytest.mark.parametrize("cpus", [1, CPUS], ids=["interrupts_million_1", "interrupts_million_4"])
def test_interrupts_million(lab, cpus):
    """The same with a million, half of them with PMIs and NMIs between."""
    factor = CPUS // cpus
    words = [word.replace("125000", str(125000 * factor)) for word in MILLION]
    return check_interrupts(lab, cpus, words)


def mutant(lab, name, word):
    """What that test found, which has to fail, on a hypervisor with one thing broken."""
    boot = interrupts(
        lab, 1, [word], efi=path("build", "mutants", f"{name}.efi"), name=f"trace-mutant-{name}"
    )
    found = [line for test, good, _, line in kernel.tap(boot) if test == word and not good]
    assert found, f"{name} passed {word}"
    return boot.lines("interrupts")[0] if boot.lines("interrupts") else kernel.notes(boot)


WRONG = ("doubled", "order", "early", "late", "lost", "left", "shadow")


@pytest.mark.parametrize(
    "name", ["early_acknowledge", pytest.param("no_window", marks=pytest.mark.full)]
)
def test_mutant(lab, name):
    """Interrupts that are not left to the local APIC until the guest can take them: found out."""
    row = mutant(lab, name, "smp-interrupts:1500")
    wrong = {key: int(row[key]) for key in WRONG if int(row[key])}
    assert wrong, row
    return str(wrong)


def test_mutant_no_resend(lab):
    """NMIs that land in these exits and are not sent again are lost, each one."""
    boot = sweeps(lab, "msr+nmi", path("build", "mutants", "no_resend.efi"), "trace-no-resend")
    rows = boot.lines("sweep")
    assert len(rows) == len(SWEEPS), rows
    failed = [name for name, good, _, _ in kernel.tap(boot) if not good]
    assert len(failed) == len(SWEEPS), f"failed: {failed}"
    return ", ".join(f"{row['delivered']} delivered" for row in rows)


def test_mutant_unnoted(lab):
    """A record without its reason and detail is found out."""
    said = mutant(lab, "unnoted", "trace")
    assert "reason is" in said or "detail is" in said, said
    return said


def test_mutant_cr3(lab):
    """A load of CR3 that is recorded though the processor refuses it is found out."""
    said = mutant(lab, "recorded_as_asked", "trace-flow")
    assert "a load that is refused" in said, said
    return said
