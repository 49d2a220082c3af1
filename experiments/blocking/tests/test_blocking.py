# SPDX-License-Identifier: BSD-2-Clause
# test_blocking.py: time lines of NMI blocking and PMI masking, as in the thesis's Figures 2.1, 3.1
# and 3.2: one PMI of the guest, in whose handler root mode has work with PMIs of its own. Without
# the two steps both are prolonged, and that work gets none.
import os

from experiments.blocking.analysis import times, times_picture
from testbed.machine import path
from tests.e2e import host
from tests.e2e.kernel import expect_ok

WAY_MAX = 1000  # instructions, from the exit to the work: a switch of the PMU is on the way
STEPS_OFF = "bookkeeping=lost,skid"
BOOTS = {
    "native": ("times", {"entry": "native"}),
    "prolonged": ("times:1", {"config": STEPS_OFF}),
    "secured": ("times:1", {}),
}


def spans(lab, name):
    word, how = BOOTS[name]
    boot = host.run(lab, f"blocking-{name}", host.Plan("blocking_log log").add(word), **how)
    expect_ok(boot, [word])
    return times.spans(boot.path("log"), times_picture.REGION)


def test_native(lab):
    """From the PMI on both are held back: the PMI until the handler unmasks LVTPC, NMIs until its
    IRET."""
    found = times.shape(spans(lab, "native"))
    assert found == "g !gBM gB g", found
    return found


def test_prolonged(lab):
    """Without the steps the exit's whole work has NMIs blocked and the PMI masked: no PMI of its
    own comes."""
    found = spans(lab, "prolonged")
    assert [span.nmi for span in found].count(True) == 1, times.shape(found)
    assert all(span.blocked and span.masked for span in found if span.root), times.shape(found)
    return times.shape(found)


def test_secured(lab):
    """With them both end soon after the exit, each PMI of the work's is an NMI in root mode, and
    the guest has its own state again at the entry."""
    found = spans(lab, "secured")
    root = [span for span in found if span.root]
    assert [span.nmi for span in root].count(True) == 2, times.shape(found)
    way = next(n for n, span in enumerate(root) if not span.blocked and not span.masked)
    assert sum(span.instructions for span in root[:way]) < WAY_MAX, root
    entry = next(n for n, span in enumerate(found) if n and found[n - 1].root and not span.root)
    assert found[entry].blocked and found[entry].masked, times.shape(found)
    return times.shape(found)


def test_picture(lab):
    """experiments/blocking/times.svg is what these boots draw (make blocking)."""
    drawn = times_picture.picture({name: spans(lab, name) for name in BOOTS})
    picture = path("experiments", "blocking", "times.svg")
    if os.environ.get("DRAW"):
        with open(picture, "w", encoding="ascii") as out:
            out.write(drawn)
    with open(picture, encoding="ascii") as kept:
        assert kept.read() == drawn, "make blocking draws it anew"
