# SPDX-License-Identifier: BSD-2-Clause
# test_entry.py: what VM entries check of the guest's state. Nothing that a guest tries makes a
# check fail, and it gives the same as natively. The table is docs/entries.md.
import pytest

from tests.e2e.experiment_rows import all_of
from tests.e2e.kernel import Plan, expect_ok, run

CET = "sapphire_rapids"  # the model that has shadow stacks
# The cases of tests/kernel/test_entry.c; in the modes where each runs.
CASES = [
    "cpuid",
    "cpuid-l",
    "vmread",
    "in-61",
    "rdmsr",
    "wrmsr",
    "rdpmc",
    "xsetbv",
    "invd",
    "step",
    "step-shadow",
    "wrap",
    "wrap-l",
    "code-conforming",
    "code-conforming-0",
    "ss-expand-down",
    "ds-not-accessed",
    "ds-code",
    "ds-null",
    "mwait",
    "tr-16",
    "cr0",
    "cr0-pg",
    "tr-16-long",
    "cs-l-long",
    "cr4-pcide",
    "stos-16-l",
    "pdpte",
    "pdpte-loaded",
    "ss-null",
    "cs-l-d",
    "gdtr",
    "idtr",
    "dr7",
    "cr0-nw",
    "ldtr-base",
    "tr-base",
    "tr-null",
    "msr",
    "rip-end",
]
CET_CASES = ["cr0-wp", "ssp-end", "cet-legacy"]
# Menu entry, options, model.
NATIVE = {"native": ("native", "", None), "native-cet": ("native", "", CET)}
GUESTS = {
    "default": ("msr+nmi", "", None),
    "intercept": ("intercept", "apic=trap platform_nmi=host tick=100", None),
    "options": ("msr", " ".join(["apic=trap", *all_of("options")]), None),
    "cet": ("msr+nmi", "", CET),
} | {config: ("msr+nmi", config, None) for config in all_of("entries")}


def rows(lab, name):
    """What came, by case and mode."""
    entry, config, model = (NATIVE | GUESTS)[name]
    knobs = ["arch_lbr on"] if model else []
    boot = run(
        lab, f"entry-{name}", Plan(*knobs).add("entry"), entry=entry, config=config, model=model
    )
    expect_ok(boot, ["entry"])
    found = {(row.pop("case"), row.pop("mode")): row for row in boot.lines("entry")}
    assert {case for case, _ in found} == set(CASES + (CET_CASES if model else [])), found.keys()
    return found


@pytest.mark.parametrize("case", CASES + CET_CASES)
def test_as_natively(lab, case):
    """By default, with the options that make more of them exit, and under experiments."""
    modes = 0
    for name, (_, _, model) in GUESTS.items():
        wanted, found = rows(lab, "native-cet" if model else "native"), rows(lab, name)
        assert found.keys() == wanted.keys(), name
        for key in [key for key in wanted if key[0] == case]:
            assert found[key] == wanted[key], f"{name}: {key}: {found[key]}, natively {wanted[key]}"
            modes += 1
    assert modes > 0
    return f"{modes} runs"
