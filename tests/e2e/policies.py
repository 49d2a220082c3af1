# SPDX-License-Identifier: BSD-2-Clause
# policies.py: what the policies cost by the thesis, and the boot that profiles its Listing 2.
# FULL=1: profiles of 20,000 samples, not 5,000. Thesis, sections 4.2 and 4.4.2.
import os

import pytest

FULL = os.environ.get("FULL") == "1"
# What Linux's handler of one PMI does: an NMI, RDPMC, 2 RDMSR, 4 WRMSR (basic exit reasons).
NMI, RDPMC, RDMSR, WRMSR = "0", "15", "31", "32"
EXITS_PER_PMI = {
    "intercept": {NMI: 1, RDPMC: 1, RDMSR: 2, WRMSR: 4},
    "msr": {NMI: 1},
    "msr+nmi": {},
}
# 40 instructions and cycles for each of PROFILE_ITER: 20,071 or 5,018 samples. A shorter period
# would meet perf's limit of samples in a timer tick, because Linux takes the emulator's processor
# for a faster one.
SAMPLES, PROFILE_ITER = (20000, 25100000) if FULL else (5000, 6275000)
PROFILE = f"pmv.profile_items=profiled pmv.profile_runs=1 pmv.iter={PROFILE_ITER} pmv.period=50021"


def under(test, policies, *marks):
    """The parameters of a test that runs under each of these policies."""
    return [
        pytest.param(policy, id=f"{test}_{policy.replace('+', '_')}", marks=marks)
        for policy in policies
    ]


def boot_profile(lab, entry):
    return lab.emulator(
        f"profile-{entry}",
        entry=entry,
        tools=True,
        config="console=none",
        jobs="profile,nmilog,watchdog",
        append=PROFILE,
    )
