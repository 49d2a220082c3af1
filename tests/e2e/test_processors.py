# SPDX-License-Identifier: BSD-2-Clause
# test_processors.py: all processors are under VMX before the guest runs, those that cannot be are
# hidden from it, and one that fails stops all.
import re

from testbed.machine import STATUS_RESET, STATUS_TEXT, path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok

TSC = "tsc_hz 50000000\n"
CPUS = 4
STOPPED = "---- stopped ----"
FAULTY = 1
HIDDEN = ["smp-hidden:0", "smp-x2apic", "smp-hidden:0"]
FAULT_REPORT = 3  # tests/hooks/hooks.c, enum fault_kind


def missing(lab):
    """The MADT lists three processors, of which the machine has two."""
    return lab.emulator("processors-missing", jobs="cpuinfo,report", cpus=2, listed=3, knobs=TSC)


def test_missing_is_hidden(lab):
    """A processor that does not come up is named, and the guest has the others and not that one."""
    boot = missing(lab)
    assert (
        "processor 2 did not start; it is hidden from the guest" in boot.console
    ), boot.last_line()
    assert "2 of 3 processors are under VMX" in boot.console
    assert boot.lines("cpuinfo")[0]["cpus"] == "2", boot.lines("cpuinfo")[0]


def test_hidden_start(lab):
    """With processors=1 the guest sends INIT, SIPIs and NMIs to the processor that it does not
    see, in both modes of the APIC: natively its code runs, here it does not."""
    for entry, words in (("native", ["smp-hidden:1"]), ("msr+nmi", HIDDEN)):
        boot = kernel.run(
            lab,
            f"processors-hidden-{entry}",
            Plan("tsc_hz 500000000").add(*words),
            cpus=2,
            entry=entry,
            config="processors=1",
        )
        expect_ok(boot, words)
        ran = sum(int(row["ran"]) for row in boot.lines("hidden"))
        assert ran == (3 if entry == "native" else 0), f"{entry}: ran {ran} times"
    assert not boot.ledger["processors"][1]["exits"], boot.ledger["processors"][1]["exits"]


def fault(lab, name, folder):
    """Processor 1 makes root mode fault; 0 exits in a loop, 2 spins, 3 sleeps."""
    return lab.emulator(
        name,
        cpus=CPUS,
        knobs=TSC,
        initrd=b"none\n",
        kernel=path("build", "kernel.bzImage"),
        efi=path("build", *folder),
        append=f"tests=smp-fault:{FAULT_REPORT}",
        until=STOPPED,
    )


def went_on(boot):
    """The processors, but the one that ended the run, that left root mode again after the INIT."""
    inits = [cpu["exits"].get("3", {"count": 0}) for cpu in boot.ledger["processors"]]
    return [
        n
        for n, init in enumerate(inits)
        if n != FAULTY and (init["count"] == 0 or init["root_instructions"]["samples"] > 0)
    ]


def test_fault_stops_all(lab):
    """A fault in root mode on one processor is reported by it and stops every other one."""
    boot = fault(lab, "processors-fault", ("test", "pmuvisor.efi"))
    boot.expect_status(STATUS_TEXT)
    assert "fault in root mode: asked for by the guest" in boot.console, boot.last_line()
    assert boot.console.count(STOPPED) == 1
    assert went_on(boot) == [], went_on(boot)


def test_fails_without_stop(lab):
    """With a hypervisor that stops nobody the test above is seen to fail."""
    boot = fault(lab, "processors-no-stop", ("test", "mutants", "no_stop.efi"))
    assert went_on(boot) == [n for n in range(CPUS) if n != FAULTY], went_on(boot)


def places(lab, name, kind, image="pmuvisor.efi", folder=("test",)):
    """0 spins in root mode, 2 in the guest, 3 sleeps in HLT; 1 ends the run."""
    return lab.emulator(
        f"processors-places-{name}",
        cpus=CPUS,
        knobs=TSC,
        initrd=b"none\n",
        kernel=path("build", "kernel.bzImage"),
        efi=path("build", *folder, image),
        append=f"tests=smp-places:{kind}",
        until=STOPPED if kind == FAULT_REPORT else None,
    )


def expect_places(boot):
    spins, sleeps = re.search(r"spins at 0x(\w+), sleeps at 0x(\w+)", boot.console).groups()
    with open(path("build", "test", "pmuvisor.map"), encoding="utf-8") as linked:
        root = int(re.search(r"0x(\w+) +test_spin_place", linked.read())[1], 16)
    found = dict(re.findall(r"^processor (\d+): (.*)$", boot.console, re.MULTILINE))
    wanted = {
        "0": f"in root mode at image offset {root:#x}",
        "2": f"in the guest at RIP 0x{spins}",
        "3": f"in the guest at RIP 0x{sleeps}",
    }
    assert found == wanted, f"{found}, wanted {wanted}; {boot.last_line()}"


def test_places_at_fault(lab):
    """A fault in root mode: the report says where each other processor was."""
    boot = places(lab, "fault", FAULT_REPORT)
    assert "fault in root mode: asked for by the guest" in boot.console, boot.last_line()
    expect_places(boot)
    return "3 processors: root mode, a loop, HLT"


def test_places_at_triple_fault(lab):
    """A triple fault of the guest: the same."""
    boot = places(lab, "triple", 0)
    boot.expect_status(STATUS_RESET)
    assert "the guest's processor 1 shut down (triple fault)" in boot.console, boot.last_line()
    expect_places(boot)


def test_places_unanswered(lab):
    """With a hypervisor that stops nobody none of them answers."""
    boot = places(lab, "no-stop", FAULT_REPORT, "no_stop.efi", ("test", "mutants"))
    found = dict(re.findall(r"^processor (\d+): (.*)$", boot.console, re.MULTILINE))
    assert found == {n: "did not answer" for n in "023"}, found
