# SPDX-License-Identifier: BSD-2-Clause
# test_measure.py: the measurements at CPL 0 (programs/measure) in the test kernel: the lines of
# each column are complete, and the figures are what each policy has to cost by its construction.
# Each check that something is free is also seen to fail under the policy that does not have it so.
import pytest

from testbed.machine import STATUS_POWEROFF, path
from tests.e2e.kernel import Plan, expect_ok, notes, run, tap
from tests.e2e.policies import EXITS_PER_PMI

RUNS, OPS = 3, 100
WORD = f"measure:{RUNS}:{OPS}"
COLUMNS = ("native", "intercept", "msr", "msr+nmi")

MSR_ITEMS = [
    "rdmsr_evtsel",
    "wrmsr_evtsel",
    "rdmsr_pmc",
    "wrmsr_pmc",
    "rdmsr_ctrl",
    "wrmsr_ctrl",
    "rdmsr_status",
    "rdpmc",
]
MSR_CHANGES = ["wrmsr_evtsel_change", "wrmsr_ctrl_change"]
MSR_RECORDS = ["rdmsr_lbr_from", "wrmsr_lbr_from"]
READOUT, READOUT_RDMSRS = "read_lbrs", 96
READOUT_INSTRUCTIONS = 322  # with the loop around them: programs/measure/loops.c
# Item by item: the base; "" for none.
ITEMS = {
    "msr": {
        "empty": "",
        **dict.fromkeys(MSR_ITEMS, "empty"),
        "empty_change": "",
        **dict.fromkeys(MSR_CHANGES, "empty_change"),
        **dict.fromkeys(MSR_RECORDS, "empty"),
        READOUT: "empty",
    },
    "exit": {
        "empty": "",
        "empty_rax": "",
        "cpuid": "empty_rax",
        "vmcall": "empty_rax",
        "inl": "empty",
        "outl": "empty",
        "inl_passed": "empty",
        "cpuid_blocked": "empty_rax",
    },
    "pmi": {
        "empty": "",
        "vmcall_unknown": "",
        "overflow_to_handler": "",
        "handler_to_iret": "",
        "lvtpc_write": "empty",
        "nmi_self": "",
        "pmu_switch": "vmcall_unknown",
    },
    "a1k": {"m200000": "", "m10000": "", "m1000": "", "m100": ""},
}
ONE_EVENT = ("overflow_to_handler", "handler_to_iret", "nmi_self")
A1K_BRANCHES = 100000
# Items that are one value, with its metric.
VALUES = {"pmi": {"apic": "x2apic"}}
SWITCH = {"vmcall_unknown", "pmu_switch"}
SKIPPED = {"native": {"vmcall"} | SWITCH, "kvm": {"inl_passed"} | SWITCH | {*MSR_RECORDS, READOUT}}
# Basic exit reasons.
NMI, INTERRUPT, CPUID, VMCALL, IO, WRMSR = "0", "1", "10", "18", "30", "32"
EXIT_REASONS = {"cpuid": CPUID, "cpuid_blocked": CPUID, "vmcall": VMCALL, "inl": IO, "outl": IO}
CPUID_ROOT_MAX = 120
KVM_TO_CPUID_MIN = 10  # KVM's root instructions for a CPUID, over those of PMUvisor
KVM_LIMIT = 40_000  # millions of instructions
# Instructions from an overflow to its PMI: more than 100 branches' own; many times more.
LATE_SKID = 1000
VERY_LATE_SKID = 20000
# Of the method, natively: what the region has beside the event (programs/measure/internal.h).
NATIVE_EVENTS = {"overflow_to_handler": 7, "handler_to_iret": 2, "nmi_self": 7}


def boot_of(lab, column):
    if column == "kvm":
        initrd = path("build/payload/kvm-cloud.img")
        return lab.emulator(
            "measure-kvm",
            entry="native",
            jobs="kvm",
            initrd=initrd,
            memory=1024,
            append=f"pmv.tests={WORD}",
            limit=KVM_LIMIT,
        )
    return run(lab, f"measure-{column}", Plan().add(WORD), entry=column)


def figures(boot, experiment):
    """(instructions, root instructions, exits by reason) of each item that is not a base, per
    operation, less its base; what is not a multiple of the operations fails."""
    rows = {
        row["item"]: row
        for row in boot.lines("bench")
        if row["experiment"] == experiment and "region" in row
    }
    whole = {}
    for item, row in rows.items():
        region = boot.region(row["region"])
        whole[item] = (
            region["nonroot"]["instructions"],
            region["root"]["instructions"],
            {reason: entry["count"] for reason, entry in region["exits"].items()},
        )
    out = {}
    bases = set(ITEMS[experiment].values())
    for item, row in rows.items():
        if item in bases:
            continue
        operations = int(row["ops"])
        base = whole[row["base"]] if "base" in row else (0, 0, {})
        empty = row.get("base", "empty").startswith("empty")
        assert not (empty and base[2]), f"{experiment} {row['base']}: exits: {base[2]}"
        counts = [mine - its for mine, its in zip(whole[item][:2], base[:2])]
        assert not any(
            count % operations for count in counts
        ), f"{experiment} {item}: {counts} instructions for {operations} operations"
        out[item] = (
            counts[0] // operations,
            counts[1] // operations,
            {
                reason: (count - base[2].get(reason, 0)) / operations
                for reason, count in whole[item][2].items()
                if count != base[2].get(reason, 0)
            },
        )
    return out


def expect_line(boot, experiment, item, row):
    where = f"{experiment} {item}: {row}"
    operations = 1 if experiment == "a1k" or item in ONE_EVENT else OPS
    assert row.get("base", "") == ITEMS[experiment][item], where
    assert int(row["ops"]) == operations and int(row["n"]) == RUNS, where
    assert row["metric"] == "time" and row["unit"] == "tsc", where
    assert 0 < int(row["min"]) <= int(row["median"]) <= int(row["p95"]), where
    region = boot.region(row["region"])
    assert region["begins"] == 1 and region["open"] == 0, f"{where}: {region['begins']} begins"


def expect_complete(boot, column):
    """Every item is there once, with all that it has to have, or with the reason why not."""
    boot.expect_status(STATUS_POWEROFF)
    if column != "kvm":
        expect_ok(boot, [WORD])
    assert f"ok 1 - {WORD}" in boot.console and "not ok" not in boot.console, notes(boot)
    lines = boot.lines("bench")
    regions = [row["region"] for row in lines if "region" in row]
    assert len(regions) == len(set(regions)), "two items have the same region"
    for experiment, items in ITEMS.items():
        mine = [row for row in lines if row["experiment"] == experiment]
        values = VALUES.get(experiment, {})
        extra = {row["item"] for row in mine} - set(items) - set(values)
        assert not extra, f"{experiment}: unknown items {extra}"
        for item, metric in values.items():
            found = [row["metric"] for row in mine if row["item"] == item]
            assert found == [metric], f"{experiment} {item}: {found}, wanted [{metric}]"
        for item in items:
            rows = [row for row in mine if row["item"] == item and row.get("unit") != "count"]
            assert len(rows) == 1, f"{experiment} {item}: {len(rows)} lines, wanted 1"
            if item in SKIPPED.get(column, ()):
                assert rows[0].get("skip"), f"{experiment} {item}: {rows[0]}, wanted skip"
            else:
                expect_line(boot, experiment, item, rows[0])
    return f"{len(lines)} lines"


def expect_free_msrs(boot):
    """Each access is one instruction of the guest and nothing else."""
    costs = figures(boot, "msr")
    for item in MSR_ITEMS + MSR_CHANGES + MSR_RECORDS:
        assert costs[item] == (1, 0, {}), (
            f"{item}: instructions, root instructions, exits: "
            f"{costs[item]}, wanted (1, 0, {{}})"
        )
    assert costs[READOUT] == (READOUT_INSTRUCTIONS, 0, {}), costs[READOUT]


def expect_fails(check, *arguments):
    try:
        check(*arguments)
    except AssertionError as trouble:
        return str(trouble)
    raise AssertionError(f"{check.__name__} passed where it must not")


def value_of(boot, experiment, item, metric):
    wanted = (experiment, item, metric)
    return next(
        int(row["value"])
        for row in boot.lines("bench")
        if (row["experiment"], row["item"], row.get("metric")) == wanted
    )


def a1k_counts(boot, item):
    return {
        row["metric"]: int(row["value"])
        for row in boot.lines("bench")
        if row["experiment"] == "a1k" and row["item"] == item and row.get("unit") == "count"
    }


def expect_a1k(boot):
    """The PMIs are N/M and the branches N, by the guest and by the ledger."""
    for item in ITEMS["a1k"]:
        pmis = A1K_BRANCHES // int(item[1:])
        counts = a1k_counts(boot, item)
        assert counts["pmis"] == counts["pmis_expected"] == pmis, f"{item}: {counts}"
        assert counts["branches"] == A1K_BRANCHES, f"{item}: {counts}"
        row = next(row for row in boot.lines("bench") if row["item"] == item and "region" in row)
        raised = boot.region(row["region"])["pmi"]["raised"]
        assert raised == pmis, f"{item}: {raised} PMIs in the ledger, wanted {pmis}"


def exits_per_pmi(boot):
    costs = figures(boot, "a1k")
    pmis = a1k_counts(boot, "m100")["pmis"]
    # Interrupts are those of a host that has a clock of its own: KVM's.
    more = {
        reason: count - costs["m200000"][2].get(reason, 0)
        for reason, count in costs["m100"][2].items()
        if reason != INTERRUPT
    }
    return {reason: count / pmis for reason, count in more.items() if count}


def expect_exits_per_pmi(boot, wanted):
    found = exits_per_pmi(boot)
    assert found == wanted, f"exits a PMI by reason: {found}, wanted {wanted}"


def cpuid_root(boot):
    row = next(row for row in boot.lines("bench") if row["item"] == "cpuid")
    return boot.region(row["region"])["root"]["instructions"] / int(row["ops"])


@pytest.mark.parametrize(
    "column",
    [
        *(pytest.param(column, id=f"complete_{column}") for column in COLUMNS),
        pytest.param("kvm", id="complete_kvm", marks=pytest.mark.full),
    ],
)
def test_complete(lab, column):
    return expect_complete(boot_of(lab, column), column)


def test_msr(lab):
    """A PMU register costs one instruction, natively and under msr+nmi."""
    expect_free_msrs(boot_of(lab, "native"))
    expect_free_msrs(boot_of(lab, "msr+nmi"))


def test_msr_fails_with_intercept(lab):
    """The same check where every access exits."""
    boot = boot_of(lab, "intercept")
    text = expect_fails(expect_free_msrs, boot)
    costs = figures(boot, "msr")
    for item in MSR_ITEMS + MSR_CHANGES + MSR_RECORDS:
        assert sum(costs[item][2].values()) == 1, f"{item}: {costs[item]}, wanted one exit"
    assert sum(costs[READOUT][2].values()) == READOUT_RDMSRS, costs[READOUT]
    return text


def test_exit(lab):
    """One exit an operation, of the right reason; none for a port that passes."""
    for column in ("msr+nmi", "msr", "intercept"):
        costs = figures(boot_of(lab, column), "exit")
        for item, reason in EXIT_REASONS.items():
            assert costs[item][2] == {reason: 1}, f"{column} {item}: {costs[item]}"
        assert costs["inl_passed"] == (1, 0, {}), f"{column} inl_passed: {costs['inl_passed']}"
    costs = figures(boot_of(lab, "msr+nmi"), "exit")
    root = costs["cpuid"][1]
    assert root <= CPUID_ROOT_MAX, f"CPUID: {root} root instructions, wanted {CPUID_ROOT_MAX}"
    bare = figures(boot_of(lab, "native"), "exit")
    for item in EXIT_REASONS:
        assert item in SKIPPED["native"] or bare[item] == (1, 0, {}), f"{item}: {bare[item]}"
    return f"CPUID {root} root instructions, {costs['cpuid_blocked'][1]} in the NMI handler"


def test_pmi(lab):
    """The parts of a PMI cost what they cost natively under msr+nmi; elsewhere the NMI exits."""
    bare = figures(boot_of(lab, "native"), "pmi")
    under = figures(boot_of(lab, "msr+nmi"), "pmi")
    for item, instructions in NATIVE_EVENTS.items():
        assert bare[item] == under[item] == (instructions, 0, {}), f"{bare[item]}, {under[item]}"
    assert bare["lvtpc_write"] == under["lvtpc_write"] == (1, 0, {}), under["lvtpc_write"]
    for column in ("msr", "intercept"):
        costs = figures(boot_of(lab, column), "pmi")
        for item in ("overflow_to_handler", "nmi_self"):
            assert costs[item][2] == {NMI: 1}, f"{column} {item}: {costs[item]}"
    # The exit is in the base.
    assert under["pmu_switch"][0] == 0 and not under["pmu_switch"][2], under["pmu_switch"]
    row = next(
        row for row in boot_of(lab, "msr+nmi").lines("bench") if row["item"] == "vmcall_unknown"
    )
    exits = boot_of(lab, "msr+nmi").region(row["region"])["exits"]
    assert {reason: entry["count"] for reason, entry in exits.items()} == {VMCALL: OPS}, exits
    for boot, mode in ((boot_of(lab, "native"), 0), (boot_of(lab, "msr+nmi"), 0)):
        assert value_of(boot, "pmi", "apic", "x2apic") == mode
        skid = next(row for row in boot.lines("bench") if row.get("metric") == "skid")
        assert skid["min"] == skid["p95"] == "0", f"{skid}: a PMI comes where its overflow is"
    return f"full PMU switch {under['pmu_switch'][1]} root instructions"


def test_pmi_x2apic(lab):
    """The same in x2APIC mode, where LVTPC and the ICR are MSRs that pass: no exit either."""
    word = f"measure:pmi:{RUNS}:{OPS}"
    boot = run(lab, "measure-x2apic", Plan().add("x2apic", word))
    expect_ok(boot, ["x2apic", word])
    costs = figures(boot, "pmi")
    assert value_of(boot, "pmi", "apic", "x2apic") == 1
    assert costs["lvtpc_write"] == (1, 0, {}), costs["lvtpc_write"]
    for item in NATIVE_EVENTS:
        assert costs[item][1:] == (0, {}), f"{item}: {costs[item]}"


def test_a1k(lab):
    """PMIs, branches and exits of each policy; under msr+nmi the native instructions, too."""
    for column in COLUMNS:
        boot = boot_of(lab, column)
        expect_a1k(boot)
        expect_exits_per_pmi(boot, EXITS_PER_PMI.get(column, {}))
    bare, under = (figures(boot_of(lab, column), "a1k") for column in ("native", "msr+nmi"))
    assert bare == under, f"natively {bare}, under msr+nmi {under}"
    return f"{(bare['m100'][0] - bare['m200000'][0]) / 1000:g} instructions a PMI"


def test_a1k_fails_with_intercept(lab):
    """The check of no exits for a PMI, where there are eight."""
    boot = boot_of(lab, "intercept")
    text = expect_fails(expect_exits_per_pmi, boot, {})
    assert sum(exits_per_pmi(boot).values()) == 8, text
    return text


def late_boot(lab, skid):
    word = f"measure:a1k:{RUNS}:{OPS}"
    boot = run(lab, f"measure-late-{skid}", Plan(f"pmi_skid {skid}").add(word), entry="native")
    return boot, (word, True) in [(name, good) for name, good, _, _ in tap(boot)]


def test_a1k_fails_with_late_pmis(lab):
    """PMIs that come later than the next overflow: fewer than N/M. The program says how many of how
    many, and fails only where next to none are left."""
    boot, good = late_boot(lab, LATE_SKID)
    text = expect_fails(expect_a1k, boot)
    assert good, boot.last_line()
    # The last PMI, after the program, is counted, too.
    assert a1k_counts(boot, "m10000")["pmis"] == 10, a1k_counts(boot, "m10000")
    boot, good = late_boot(lab, VERY_LATE_SKID)
    expect_fails(expect_a1k, boot)
    assert not good and "measure: a1k m100: found " in boot.console, boot.last_line()
    return text


def test_no_pmu(lab):
    """Without a PMU the rest is still measured, and what needs one says that it is missing."""
    boot = run(lab, "measure-no-pmu", Plan().add(WORD), config="pmu=off")
    expect_ok(boot, [WORD])
    need = {
        "msr": MSR_ITEMS + MSR_CHANGES + MSR_RECORDS + [READOUT],
        "exit": [],
        "a1k": list(ITEMS["a1k"]),
        "pmi": ["overflow_to_handler", "handler_to_iret", "lvtpc_write", "pmu_switch"],
    }
    for experiment, items in ITEMS.items():
        skipped = [
            row["item"]
            for row in boot.lines("bench")
            if row["experiment"] == experiment and "skip" in row
        ]
        assert sorted(skipped) == sorted(need[experiment]), f"{experiment}: skipped {skipped}"


def test_wrong_name(lab):
    """An experiment that does not exist is said to be so."""
    boot = run(lab, "measure-wrong", Plan().add("measure:nothing"))
    results = [(name, good) for name, good, _, _ in tap(boot)]
    assert results == [("measure:nothing", False)], results


@pytest.mark.full
def test_kvm(lab):
    """Under the kernel's own KVM: PMIs and branches, nine exits a PMI; PMUvisor's CPUID is cheaper
    by the factor wanted."""
    boot = boot_of(lab, "kvm")
    expect_a1k(boot)
    wanted = dict(EXITS_PER_PMI["intercept"])
    wanted[WRMSR] += 1  # LVTPC: the guest's local APIC is KVM's, in x2APIC mode
    expect_exits_per_pmi(boot, wanted)
    # The kernel's own interrupts come in between: no multiple of the operations.
    kvm, ours = (cpuid_root(boot_of(lab, column)) for column in ("kvm", "msr+nmi"))
    assert kvm >= KVM_TO_CPUID_MIN * ours, f"CPUID: KVM {kvm}, PMUvisor {ours} root instructions"
    return f"CPUID: KVM {kvm:g}, PMUvisor {ours:g} root instructions"
