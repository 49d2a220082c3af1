# SPDX-License-Identifier: BSD-2-Clause
# test_situations.py: situations that users of hypervisors report faults in, natively and in the
# guest: what the guest's programs print (programs/situations/) and how the machine ends is the
# same.
import re

import pytest
from machine import STATUS_POWEROFF, STATUS_RESET, path

# What is another in each boot: times, addresses, and bits 4 and 5 of port 61H, which toggle by
# themselves.
VARIES = re.compile(r"\[ *[\d.]+\] |TSC [0-9a-f]+ |TIME \d+ |<[0-9a-f]{16}>|"
                    r"(?<=unknown reason )[0-3](?=0 )")
ENTRIES = ("native", "msr+nmi")
SERVER = "sapphire_rapids"
LIMIT = 40_000  # millions of instructions
MUTANT_LIMIT = 3_000
MUTANT = path("build", "mutants", "losing_state.efi")
PERIOD = 1000  # of PMIs: programs/situations/hibernate.c
TSC = "tsc_hz 50000000\n"
pytestmark = pytest.mark.full


def both(lab, name, jobs, image="situations", status=STATUS_POWEROFF, flavour="cloud", **more):
    """The boots natively and in the guest, which end alike."""
    found = [lab.emulator(f"situation-{name}-{entry}", entry=entry, jobs=jobs, flavour=flavour,
                          initrd=path(f"build/payload/{image}-{flavour}.img"),
                          **{"limit": LIMIT, **more})
             for entry in ENTRIES]
    for boot in found:
        boot.expect_status(status)
    return found


def said(boot, *jobs):
    """The lines of these jobs."""
    return [VARIES.sub("", line) for line in boot.console.splitlines()
            if line.startswith(tuple(f"{job}: " for job in jobs))]


def same(boots, *jobs):
    """What the jobs said, which is the same in both boots."""
    native, guest = (said(boot, *jobs) for boot in boots)
    assert native == guest, [pair for pair in zip(native, guest) if pair[0] != pair[1]] or \
        (native, guest)
    return native


def test_probes(lab):
    """CPUID under uprobes and kprobes: registers before and after it, with PMIs between."""
    boots = both(lab, "probes", "probes")
    lines = same(boots, "probes", "job")
    assert boots[0].job_status("probes") == 0, lines
    return f"{len(lines)} lines"


def test_keys(lab):
    """Protection keys: each right against each access, with exits before it, as natively."""
    boots = both(lab, "keys", "keys", model=SERVER, append="no5lvl")
    lines = same(boots, "keys", "job")
    assert boots[0].job_status("keys") == 0, lines
    return f"{len(lines)} lines"


@pytest.mark.parametrize("name", ["probes", "keys"])
def test_fails_with_mutant(lab, name):
    """A hypervisor that loses single steps and PKRU at exits is seen."""
    model = {"model": SERVER, "append": "no5lvl"} if name == "keys" else {}
    boot = lab.emulator(f"situation-{name}-mutant", jobs=name, efi=MUTANT, limit=MUTANT_LIMIT,
                        initrd=path("build/payload/situations-cloud.img"), **model)
    native = lab.emulator(f"situation-{name}-native", entry="native", jobs=name, limit=LIMIT,
                          initrd=path("build/payload/situations-cloud.img"), **model)
    assert said(boot, name) != said(native, name), said(boot, name)
