# SPDX-License-Identifier: BSD-2-Clause
# test_pebs.py: PEBS in the test kernel, on a processor that has it (the emulator's knob `pebs`):
# records between exits and into a buffer that is not there, and records that come late, with and
# without the switch of IA32_PEBS_ENABLE.
import pytest

from testbed.machine import STATUS_TEXT
from tests.e2e import kernel
from tests.e2e.host import STOPPED, results

LATE = ["pebs 3", "pebs_late 20"]
NOT_ISOLATED = ["cpuid 1 0 eax 0x8"]  # a stepping that Linux has in no list either
RECORDS = [("native", "native"), ("guest", "msr+nmi")]


@pytest.mark.parametrize(
    "entry", [entry for _, entry in RECORDS], ids=[f"records_{name}" for name, _ in RECORDS]
)
def test_records(lab, entry):
    """Exits between the sampled instructions; a buffer that is not there, or not the guest's."""
    boot = kernel.run(
        lab,
        f"pebs-records-{entry}",
        kernel.Plan("pebs 3").add("pebs-records", "pebs-faults"),
        entry=entry,
    )
    kernel.expect_ok(boot, ["pebs-records", "pebs-faults"])
    refused = boot.console.count("was refused: not its memory")
    assert (refused > 0) == (entry != "native"), boot.console[-800:]


def apic_page(lab, **more):
    return kernel.run(
        lab, "pebs-apic", kernel.Plan("pebs 3").add("pebs-apic"), config="apic=trap", **more
    )


def test_apic_page(lab):
    """apic=trap, and the buffer is the APIC's page: a record is not taken for the next
    instruction's store. (Natively the emulator ends there: a record's words have 8 bytes.)"""
    boot = apic_page(lab)
    kernel.expect_ok(boot, ["pebs-apic"])
    assert boot.console.count("was refused: not its memory") == 1, boot.console[-800:]
    return str(boot.lines("sampling")[0])


def test_apic_page_mutant(lab):
    """A record that is taken for it is found out: the store is lost, and the APIC has its value."""
    boot = apic_page(lab, efi=kernel.mutant("taken_for_store"))
    row = boot.lines("sampling")[0]
    assert not results(boot)["pebs-apic"], row
    assert int(row["misplaced"]) and row["priority"] == "0x20", row
    return str(row)


def late(lab, name, knobs, **more):
    return kernel.run(lab, f"pebs-late-{name}", kernel.Plan(*LATE, *knobs).add("pebs-late"), **more)


def expect_root_fault(boot):
    """The record reached root mode: its access is by the guest's linear address."""
    boot.expect_status(STATUS_TEXT)
    assert (
        "fault in root mode: exception 14" in boot.console and "CR2 ffffffff8" in boot.console
    ), boot.console[-2000:]


def test_late_unswitched(lab):
    """A processor that says it isolates, and does not: root mode faults, and reports it."""
    expect_root_fault(late(lab, "unswitched", [], until=STOPPED))


def test_late_switched(lab):
    """The same record where IA32_PEBS_ENABLE is 0 in root mode: not written there."""
    boot = late(lab, "switched", NOT_ISOLATED)
    assert results(boot)["pebs-late"], boot.console[-800:]
    stored = boot.ledger["stored"]
    assert stored["pebs"] > 0 and stored["pebs_dropped"] > 0 and stored["pebs_root"] == 0, stored
    return f"{stored['pebs']} records, {stored['pebs_dropped']} held back over an exit"


@pytest.mark.full
def test_late_fails_without_switch(lab):
    expect_root_fault(
        late(
            lab, "unisolated", NOT_ISOLATED, until=STOPPED, efi=kernel.mutant("unisolated", "test")
        )
    )
