# SPDX-License-Identifier: BSD-2-Clause
# test_demand_kernel.py: policy=demand in the test kernel: its tests of MSRs, counters and PMIs are
# as elsewhere, and an NMI at each root-mode instruction of the exits in which the PMU begins and
# ends to pass.
import pytest

from testbed.machine import path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok

HERTZ = 50_000_000  # of the TSC: a tick of 1 ms is so many thousands of instructions
TICK = HERTZ // 1000
REGION = 1980  # tests/kernel/test_demand_sweep.c
WRMSR, TIMER = "32", "52"
KINDS = {
    "open": (WRMSR, 1),
    "look": (TIMER, 2),
    "close": (TIMER, 2),
}  # exits from one round to the next
FIRST = {"open": 101, "look": 1001, "close": 3001}
POSITIONS = 280  # more than any of these exits has instructions
SWITCH_POSITIONS = 800  # the same with the switch to a second user and back
WORDS = [*kernel.BASICS, "pmu-registers", "freeze", "lbr"]


def sweep(lab, name, kinds=KINDS, positions=POSITIONS, second="off", **more):
    plan = Plan(f"tsc_hz {HERTZ}")
    for kind in kinds:
        reason, stride = KINDS[kind]
        for position in range(1, positions + 1):
            at = FIRST[kind] + (position - 1) * stride
            plan.knobs.append(f"nmi_root reason={reason} exits={at} position={position}")
        plan.add(f"demand-sweep:{kind}:{FIRST[kind]}:{positions}:{TICK}")
    return kernel.run(
        lab, f"demand-{name}", plan, config=f"policy=demand tick=1 second_user={second}", **more
    )


def expect(boot, kinds=KINDS):
    """Every instruction of each of these exits had its NMI, which came once."""
    found = []
    for at, (kind, (reason, _)) in enumerate(KINDS.items()):
        if kind not in kinds:
            continue
        row = [r for r in boot.lines("sweep") if r["name"].startswith(f"demand-sweep:{kind}")]
        assert len(row) == 1, f"{kind}: {kernel.notes(boot)}"
        spread = boot.region(str(REGION + at))["exits"][reason]["root_instructions"]
        assert row[0]["wrong"] == "0" and spread["min"] == spread["max"] == int(
            row[0]["delivered"]
        ), f"{row}, {spread}; {kernel.notes(boot)}"
        found.append(f"{kind} {spread['min']}")
    return ", ".join(found)


@pytest.mark.full
def test_nmis(lab):
    return expect(sweep(lab, "nmis"))


@pytest.mark.full
def test_nmis_second_user(lab):
    """The same at each instruction of a tick with the switch to a second user and back."""
    return expect(sweep(lab, "nmis-second-user", ["look"], SWITCH_POSITIONS, "counting"), ["look"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["never_opens", "never_closes"])
def test_mutant(lab, name):
    """Rounds are not what they should be: more writes exit, or none."""
    boot = sweep(lab, name, ["open"], 4, efi=path("build", "mutants", f"{name}.efi"))
    assert [good for _, good, _, _ in kernel.tap(boot)] == [False], kernel.notes(boot)
    return kernel.notes(boot)


@pytest.mark.full
def test_as_elsewhere(lab):
    """What the test kernel tests of the PMU and of NMIs, with a tick."""
    boot = kernel.run(
        lab, "demand-kernel", Plan().add(*WORDS, "x2apic", *WORDS), config="policy=demand tick=1"
    )
    expect_ok(boot, [*WORDS, "x2apic"])


@pytest.mark.full
@pytest.mark.parametrize("version", [3, 6])
def test_version(lab, version):
    """A PMU whose freeze is another one, and one with the names from 1900H on."""
    boot = kernel.run(
        lab,
        f"demand-version-{version}",
        Plan(f"pmu_version {version}").add(*WORDS),
        config="policy=demand tick=1",
    )
    expect_ok(boot, WORDS)
