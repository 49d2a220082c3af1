# SPDX-License-Identifier: BSD-2-Clause
# test_any_level.py, with FULL=1: virtualization in virtualization in virtualization: Debian's KVM
# runs a Linux whose KVM runs a Linux whose KVM runs the test kernel. The levels are told apart by
# what the paper's module reads of the outermost KVM's entries and exits, CR3 and RIP
# (analysis/levels.py). Truth is which of its maps (EPT pointers) each entry has: it has others for
# each level.
import collections

import pytest

from experiments.flow.analysis import flow_log, seen_by_host
from testbed.machine import STATUS_POWEROFF, path

pytestmark = pytest.mark.full

DEPTH = 3
RIGHT_MIN = 1.0  # of the stays
# A clock tick in the innermost machine takes exits of all those around it: at the usual rate the
# next one would come before it is done.
TSC_HZ = 2_000_000_000
LIMIT = 60_000  # millions of instructions


def stays(lab):
    done = lab.emulator(
        "flow-three-levels",
        entry="native",
        jobs="kvm",
        memory=2048,
        limit=LIMIT,
        initrd=path("build/payload/kvm-flowdeep-cloud.img"),
        append="pmv.kvm=kvm+kvm pmv.tests=cpuid,msr nmi_watchdog=0",
        knobs=f"tsc_hz {TSC_HZ}\nflow_log log\n",
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("kvm") == 0, done.last_line()
    return list(seen_by_host.stays(seen_by_host.guest_time(flow_log.events(done.path("log")))))


def test_three_levels(lab):
    """Each of the three is found, and each stay is of the level whose map it has."""
    found = stays(lab)
    given = seen_by_host.levels_of(found)
    of_map = collections.defaultdict(collections.Counter)
    for stay, level in zip(found, given):
        of_map[stay.eptp][level] += 1
    assert set(given) == set(range(1, DEPTH + 1)), collections.Counter(given)
    assert len(of_map) >= DEPTH, of_map
    right = sum(counts.most_common(1)[0][1] for counts in of_map.values())
    levels_of_maps = {counts.most_common(1)[0][0] for counts in of_map.values()}
    assert levels_of_maps == set(range(1, DEPTH + 1)), of_map
    assert right >= RIGHT_MIN * len(found), (right, len(found), of_map)
    return (
        f"{len(found)} stays, {right} of the level that their map has; by level "
        f"{sorted(collections.Counter(given).items())}; {len(of_map)} maps"
    )
