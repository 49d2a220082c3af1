# SPDX-License-Identifier: BSD-2-Clause
# test_instruction.py: what PMUvisor does to single steps, breakpoints, shadows, what waits in them,
# and control registers at each instruction that it completes, refuses, or lets the guest execute
# again: the same as the processor natively. The table is docs/instructions.md.
import pytest

from testbed.machine import Skip
from tests.e2e import kernel
from tests.e2e.experiment_rows import all_of
from tests.e2e.kernel import Plan, expect_ok, run

CPUS = 2  # the first one's WBINVD and MWAIT do not exit
KNOBS = ["tsc_hz 500000000", "mwait_wake 1000"]
OPTIONS = " ".join(["apic=trap", "platform_nmi=host"] + all_of("options"))
# Rows of each boot, both processors.
ROWS = 870
UNPENDED = kernel.mutant("unpended_step")
BRANCHES = "branches"
PAGE = "smp-apic-page"
# The instructions of tests/kernel/test_instruction.c by what they stand for.
SUBJECTS = {
    "cpuid": ["cpuid", "cpuid-1"],
    "rdmsr": ["rdmsr", "rdmsr-refused"],
    "wrmsr": ["wrmsr", "wrmsr-refused"],
    "rdpmc": ["rdpmc"],
    "io": ["in", "out"],
    "platform_port": ["in-61", "in-60"],
    "cr0": ["cr0-ne", "cr0-ne-mp", "cr0-ignored"],
    "cr0_refused": ["cr0-no-pe", "cr0-no-pg", "cr0-nw", "cr0-high"],
    "cr3": ["cr3", "cr3-refused"],
    "cr4": ["cr4-osxsave", "cr4-osxsave-tsd"],
    "cr4_refused": ["cr4-no-pae", "cr4-la57", "cr4-reserved", "cr4-high"],
    "xsetbv": ["xsetbv", "xsetbv-refused"],
    "vmcall": ["vmcall"],
    "undefined": ["vmread", "getsec"],
    "invd": ["invd"],
    "hidden_memory": ["hidden"],
    "wbinvd": ["wbinvd"],
    "mwait": ["mwait"],
    "apic_page": ["apic-load", "apic-store", "apic-exchange"],
}


def boot_of(lab, name):
    """Natively, by default, and with the options that make more of them exit."""
    entry, config, efi = {
        "native": ("native", "", None),
        "default": ("msr+nmi", "", None),
        "options": ("intercept", OPTIONS, None),
        "unpended": ("msr+nmi", "", UNPENDED),
    }[name]
    plan = Plan(*KNOBS).add("instruction", "@instruction", PAGE)
    return run(
        lab,
        f"instruction-{name}",
        plan,
        entry=entry,
        config=config,
        efi=efi,
        cpus=CPUS,
        panic="report",
    )


def rows(lab, name):
    """What came, by processor, instruction and way."""
    boot = boot_of(lab, name)
    expect_ok(boot, ["instruction", "instruction@1"])
    found = {
        (row.pop("name"), row.pop("subject"), row.pop("way")): row
        for row in boot.lines("instruction")
    }
    assert len(found) > ROWS and {subject for _, subject, _ in found} == {
        subject for several in SUBJECTS.values() for subject in several
    }, len(found)
    return found


def compare(lab, keys, names=("default", "options")):
    wanted = rows(lab, "native")
    for name in names:
        found = rows(lab, name)
        assert found.keys() == wanted.keys()
        wrong = [
            f"{name}: {key}: {found[key]}, natively {wanted[key]}"
            for key in keys
            if found[key] != wanted[key]
        ]
        assert not wrong, f"{len(wrong)} differ; {'; '.join(wrong[:3])}"
    return f"{len(keys)} rows"


@pytest.mark.parametrize("what", SUBJECTS, ids=list(SUBJECTS))
def test_as_natively(lab, what):
    """By default, and with the options that make more of them exit."""
    return compare(
        lab, [key for key in rows(lab, "native") if key[1] in SUBJECTS[what] and key[2] != BRANCHES]
    )


def test_branches(lab):
    """Single steps on branches: none after these instructions."""
    wanted = rows(lab, "native")
    first = wanted[("instruction", "cpuid", BRANCHES)]
    if first["events"].startswith(f"1@{first['after']}/"):
        raise Skip("this processor ignores IA32_DEBUGCTL.BTF")
    return compare(lab, [key for key in wanted if key[2] == BRANCHES])


@pytest.mark.more
def test_unpended(lab):
    """A hypervisor that enters in a shadow without the single step that is due: the entry fails,
    and the next one has the step."""
    return compare(lab, [key for key in rows(lab, "native") if key[2] != BRANCHES], ["unpended"])


@pytest.mark.parametrize(
    "name",
    ["native", "default", "options"],
    ids=["no_ipi_native", "no_ipi_default", "no_ipi_options"],
)
def test_no_ipi(lab, name):
    """A store to the page of an APIC that is disabled, or in x2APIC mode, and WRMSR of the ICR out
    of x2APIC mode send nothing; and there is no line about what the processor itself refuses."""
    boot = boot_of(lab, name)
    expect_ok(boot, [PAGE])
    assert "to MSR 0x8" not in boot.console, kernel.notes(boot)


@pytest.mark.more
@pytest.mark.parametrize("entry", ["native", "msr+nmi"], ids=["mwait_user_native", "mwait_user"])
def test_user(lab, entry):
    """MWAIT by CPL 3 with interrupts off: it exits, and nothing halts where HLT is not for CPL
    3."""
    plan = Plan(*KNOBS, "msr 0x140 2").add("@mwait-user")
    boot = run(lab, f"mwait-user-{entry}", plan, entry=entry, cpus=CPUS, limit=3000)
    expect_ok(boot, ["mwait-user@1"])
    if entry != "native":
        assert boot.ledger["processors"][1]["exits"]["36"]["count"] == 1, boot.ledger["processors"][
            1
        ]


V86 = 31 * 8 - 4  # instructions in each way; one in single steps alone


@pytest.mark.more
@pytest.mark.parametrize(
    "name", ["default", "msr", "options", "tick"], ids=["v86", "v86_msr", "v86_options", "v86_tick"]
)
def test_v86_mode(lab, name):
    """Virtual-8086 mode: the first event of each run is the native one, with the same registers."""
    found = {}
    for which, (entry, config) in {
        "native": ("native", ""),
        name: {
            "default": ("msr+nmi", ""),
            "msr": ("msr", ""),
            "options": ("intercept", OPTIONS),
            "tick": ("msr+nmi", "tick=1"),
        }[name],
    }.items():
        boot = run(
            lab, f"v86-{which}", Plan("tsc_hz 500000000").add("v86"), entry=entry, config=config
        )
        expect_ok(boot, ["v86"])
        found[which] = {
            tuple(row.pop(key) for key in ("instruction", "iopl", "vme", "step")): row
            for row in boot.lines("v86")
        }
    assert len(found["native"]) == V86, len(found["native"])
    wrong = [
        f"{key}: {row}, natively {found['native'].get(key)}"
        for key, row in found[name].items()
        if found["native"].get(key) != row
    ]
    assert found[name].keys() == found["native"].keys() and not wrong, f"{len(wrong)}: {wrong[:3]}"
    vectors = {row["vector"] for row in found["native"].values()}
    assert vectors >= {"1", "3", "6", "13", "64"}, vectors
    return f"{V86} runs, vectors {sorted(vectors, key=int)}"
