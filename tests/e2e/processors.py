# SPDX-License-Identifier: BSD-2-Clause
# processors.py: all processors are under VMX before the guest runs, those that cannot be are hidden
# from it, and one that fails stops all.
TSC = "tsc_hz 50000000\n"


def missing(lab):
    """The MADT lists three processors, of which the machine has two."""
    return lab.emulator("processors-missing", jobs="cpuinfo,report", cpus=2, listed=3, knobs=TSC)


def test_missing_is_hidden(lab):
    """A processor that does not come up is named, and the guest has the others and not that one."""
    boot = missing(lab)
    assert "processor 2 did not start; it is hidden from the guest" in boot.console, boot.last_line()
    assert "2 of 3 processors are under VMX" in boot.console
    assert boot.lines("cpuinfo")[0]["cpus"] == "2", boot.lines("cpuinfo")[0]


TESTS = [test_missing_is_hidden]
