# SPDX-License-Identifier: BSD-2-Clause
# test_entry.py: what VM entries check of the guest's state: no guest can bring about that a check fails,
# and what it tries gives the same as natively. The table is docs/entry_checks.md.
from kernel import Plan, expect_ok, run


def boot_of(lab, name):
    entry, config = {"native": ("native", ""), "default": ("msr+nmi", "")}[name]
    return run(lab, f"entry-{name}", Plan().add("entry"), entry=entry, config=config)


def rows(lab, name):
    boot = boot_of(lab, name)
    expect_ok(boot, ["entry"])
    return {row.pop("case"): row for row in boot.lines("entry")}


def test_as_natively(lab):
    wanted, found = rows(lab, "native"), rows(lab, "default")
    assert found == wanted, f"{found}, natively {wanted}"
    return f"{len(wanted)} cases"
