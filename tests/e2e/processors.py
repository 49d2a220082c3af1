# SPDX-License-Identifier: BSD-2-Clause
# processors.py: all processors are under VMX before the guest runs, those that cannot be are hidden
# from it, and one that fails stops all.
import tempfile

from machine import STATUS_TEXT, path

TSC = "tsc_hz 50000000\n"
CPUS = 4
STOPPED = "---- stopped ----"
FAULTY = 1
FAULT_REPORT = 3  # tests/hooks/hooks.c, enum fault_kind


def missing(lab):
    """The MADT lists three processors, of which the machine has two."""
    return lab.emulator("processors-missing", jobs="cpuinfo,report", cpus=2, listed=3, knobs=TSC)


def test_missing_is_hidden(lab):
    """A processor that does not come up is named, and the guest has the others and not that one."""
    boot = missing(lab)
    assert "processor 2 did not start; it is hidden from the guest" in boot.console, boot.last_line()
    assert "2 of 3 processors are under VMX" in boot.console
    assert boot.lines("cpuinfo")[0]["cpus"] == "2", boot.lines("cpuinfo")[0]


def fault(lab, name, folder):
    """Processor 1 makes root mode fault; 0 exits in a loop, 2 spins, 3 sleeps."""
    with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
        initrd.write(b"none\n")
        initrd.flush()
        return lab.emulator(name, cpus=CPUS, knobs=TSC, initrd=initrd.name,
                            kernel=path("build", "bench.bzImage"), efi=path("build", *folder),
                            append=f"bench=smp-fault:{FAULT_REPORT}", until=STOPPED)


def went_on(boot):
    """The processors, but the one that ended the run, that left root mode again after the INIT."""
    inits = [cpu["exits"].get("3", {"count": 0}) for cpu in boot.ledger["processors"]]
    return [n for n, init in enumerate(inits)
            if n != FAULTY and (init["count"] == 0 or init["root_instructions"]["samples"] > 0)]


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


TESTS = [test_missing_is_hidden, test_fault_stops_all, test_fails_without_stop]
