# SPDX-License-Identifier: BSD-2-Clause
# test_reports.py: situations of public bug reports about hypervisors, natively and in the guest: the
# same in both. docs/limits.md has the table, with the situations that other files test.
import kernel
from kernel import Plan, expect_ok
import pytest

ENTRIES = ("native", "msr+nmi")
XSETBV_CASES = 17
PTRACE_ROWS = 24 * 8  # pieces of code, modes


def expect_same(rows, wanted):
    """The same rows natively and in the guest, `wanted` of them."""
    native, guest = rows
    assert len(native) == wanted, f"{len(native)} rows natively, wanted {wanted}"
    differ = [f"natively {one}, in the guest {other}" for one, other in zip(native, guest)
              if one != other]
    assert len(guest) == len(native) and not differ, f"{len(guest)} rows; {'; '.join(differ[:3])}"
    return f"{wanted} rows"


@pytest.mark.parametrize("model", ["corei7_skylake_x", "sapphire_rapids"])
def test_xsetbv(lab, model):
    """XSETBV by value, index, privilege level and CR4.OSXSAVE: its exception and XCR0."""
    rows = []
    for entry in ENTRIES:
        boot = kernel.run(lab, f"reports-xsetbv-{model}-{entry}", Plan().add("xsetbv"), entry=entry,
                          model=model)
        expect_ok(boot, ["xsetbv"])
        rows.append(boot.lines("xsetbv"))
    return expect_same(rows, XSETBV_CASES)


# With the words of a boot that other tests want, so that one server at init serves all of them.
def linux(lab, name, entry, jobs, **more):
    return lab.emulator(f"reports-{name}-{entry}", entry=entry, jobs=jobs, **more)


def test_ptrace(lab):
    """A debugger over pieces of code: where each stopped, why, and what DR6 said."""
    rows = []
    for entry in ENTRIES:
        boot = linux(lab, "ptrace", entry, "ptrace")
        assert boot.job_status("ptrace") == 0, boot.lines("ptrace")[-1:]
        rows.append(boot.lines("ptrace"))
    return expect_same(rows, PTRACE_ROWS)
