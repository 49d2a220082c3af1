# SPDX-License-Identifier: BSD-2-Clause
# test_profile.py: how true is a profile? Each load by each way to sample, against the emulator's
# count of each instruction of the same run. FULL=1: all loads, policies and KVMs; with DRAW=1 the
# answer, its page and its picture are made anew.
import os

import pytest

from experiments.profile.analysis import alike, profile_picture, profile_tables, shares
from experiments.profile.tests import sampling, sampling_answer
from experiments.profile.tests.sampling_answer import whole, with_skid
from experiments.shared.analysis import answers

pytestmark = pytest.mark.more

# By function; with so many samples as there are, chance alone is nearer.
MAX_APART = {
    "listing2": 0.02,
    "shorts": 0.02,
    "sqlite3": 0.1,
    "glpsol": 0.1,
    "nginx": 0.1,
    sampling.KERNEL: 0.06,
}
MAX_CORRECTED = 0.2
REAL = ("sqlite3", "glpsol", "nginx")
ENTRIES = sampling.ENTRIES
LOADS = tuple(sampling.LOADS)


def told(found):
    return (
        f"{found.samples} samples, {found.by_function:.4f} by function ({found.chance:.4f} by "
        f"chance), {found.by_instruction:.4f} by instruction ({found.chance_by_instruction:.4f})"
    )


def as_it_was(found):
    """Each overflow in the work has its interrupt, and perf's addresses are those that these came
    at."""
    assert (
        found.same_addresses
        and found.ways.unasked == found.ways.merged == 0
        and found.ways.lost <= 1
    ), found.ways
    return told(found)


def test_cheap(lab):
    """Listing 2 natively, without skid: each NMI comes at the instruction after the overflow."""
    found = sampling.answer(
        sampling.boot(lab, "native", "cheap", {"listing2": ("nmi",)}), "listing2", "nmi"
    )
    assert (
        found.samples > 500
        and found.by_function < MAX_APART["listing2"]
        and set(found.ways.skids) == {0}
    ), found
    return as_it_was(found)


@pytest.mark.full
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("entry", [*ENTRIES, *sampling.KVMS])
def test_nmi(lab, entry, load):
    """Samples by NMI, under KVM by its emulated vPMU and its mediated one."""
    found = sampling.answer(whole(lab, entry), load, "nmi")
    assert found.samples > 400 and found.by_function < MAX_APART[load], found
    # An NMI that is due after STI waits for one instruction more. Of KVM nothing is asked.
    skids = {0, 1} if load == sampling.KERNEL else {0}
    assert entry in sampling.KVMS or set(found.ways.skids) <= skids, found.ways
    return as_it_was(found)


@pytest.mark.full
@pytest.mark.parametrize("load", sampling.PROGRAMS)
@pytest.mark.parametrize("way", ["pebs", "lbr-blocks", "lbr-target"])
def test_other_ways(lab, way, load):
    found, nmi = (sampling.answer(whole(lab, "native"), load, each) for each in (way, "nmi"))
    assert found.by_function < MAX_CORRECTED, found
    # Records of branches say more of each instruction; a last branch's target of one in a block
    # alone.
    if load in REAL and way == "lbr-blocks":
        assert found.by_instruction < nmi.by_instruction / 2, found
    if way == "lbr-target":
        assert found.by_instruction > nmi.by_instruction, found
    return told(found)


@pytest.mark.full
@pytest.mark.parametrize("load", ["listing2", "shorts"])
def test_pt(lab, load):
    found = sampling.answer(whole(lab, "native"), load, "pt")
    assert found.by_function < MAX_APART[load], found
    return told(found)


@pytest.mark.full
@pytest.mark.parametrize("entry", [*ENTRIES, *sampling.KVMS])
def test_vector(lab, entry):
    """A PMI with a vector waits for the end of a stretch with interrupts off: no sample is
    there."""
    found = sampling.answer(whole(lab, entry), sampling.KERNEL, "vector")
    assert found.truly_masked > 0.5 and found.masked == 0 and found.by_function > 0.5, found
    return f"{told(found)}; masked {found.masked:.3f} of {found.truly_masked:.3f}"


@pytest.mark.full
@pytest.mark.parametrize("load", ["listing2", "shorts"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_skid(lab, entry, load):
    """The policy adds nothing to the processor's skid. It moves samples to other functions; as it
    is the same at each instruction, the shares stay."""
    found = sampling.answer(with_skid(lab, entry), load, "nmi")
    assert (
        set(found.ways.skids) == set(range(sampling.SKIDS)) and found.by_function < MAX_APART[load]
    ), found
    assert load != "shorts" or found.elsewhere > 0.2, found
    return f"{as_it_was(found)}; {found.elsewhere:.2f} elsewhere"


@pytest.mark.full
def test_round_period(lab):
    """A period of a multiple of the loop's instructions finds one of them alone."""
    prime = sampling.answer(whole(lab, "native"), "listing2", "nmi")
    done = sampling.boot(
        lab, "native", "round", {"listing2": ("nmi",)}, periods={"listing2": sampling.ROUND}
    )
    even = sampling.answer(done, "listing2", "nmi")
    assert even.by_instruction > 0.5 > prime.by_instruction, (prime, even)
    return f"{prime.by_instruction:.3f} and {even.by_instruction:.3f} by instruction"


def test_mutant(lab):
    """Samples whose addresses are moved by a function's length are found to be wrong."""
    done = sampling.boot(lab, "native", "cheap", {"listing2": ("nmi",)})
    found = sampling.read(done.path("guest/listing2-nmi.list"))
    of = sampling.functions("listing2", found)
    moved, right = {}, {}
    for at, _ in found.samples:
        moved[at + 0x30] = moved.get(at + 0x30, 0) + 1
        right[at] = right.get(at, 0) + 1
    apart = shares.distance(shares.share(of.counts(moved)), shares.share(of.counts(right)))
    assert apart > MAX_APART["listing2"], apart
    return f"moved by 48 bytes: {apart:.2f} apart"


@pytest.mark.full
def test_answer(lab):
    """The kept answer: to the digit, or within its interval."""
    found = sampling_answer.answer(lab)
    if os.environ.get("DRAW"):
        answers.keep("profile", sampling_answer.machine(), found)
        answers.write_page(profile_tables.PAGE, profile_tables.put, found)
        profile_picture.write(found)
    wrong = alike.unlike(answers.kept("profile"), found)
    assert not wrong, "\n".join(wrong)
    return f"{len(found['rows'])} rows, {len(found['interrupts'])} of interrupts"
