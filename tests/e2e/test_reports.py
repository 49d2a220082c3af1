# SPDX-License-Identifier: BSD-2-Clause
# test_reports.py: situations of public bug reports about hypervisors, natively and in the guest: the
# same in both. docs/limits.md has the table, with the situations that other files test.
import kernel
from kernel import Plan, expect_ok
import pytest

ENTRIES = ("native", "msr+nmi")
XSETBV_CASES = 17


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
