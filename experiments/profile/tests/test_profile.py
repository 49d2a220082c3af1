# SPDX-License-Identifier: BSD-2-Clause
# test_profile.py: how true is a profile? Each way to sample Listing 2 against the emulator's count of each
# instruction of the same run.
# FULL=1: all policies, with and without skid, and a period that goes into the loops.
import pytest

import sampling
import shares

MAX_APART = 0.02   # by function, of the samples of a whole run
POLICIES = [pytest.param(policy, marks=pytest.mark.full) for policy in sampling.POLICIES]
SKIDS = ("0", f"sweep/{sampling.SKIDS}")


def check(lab, entry, skid):
    found = sampling.answer(sampling.boot(lab, entry, skid=skid), "nmi")
    assert found.samples > 500 and found.by_function < MAX_APART, found
    # Each overflow in the work has its NMI, and perf's address is the one that it interrupted.
    assert found.same_addresses and found.ways.unasked == found.ways.lost == 0, found.ways
    return found


@pytest.mark.parametrize("entry", ["native", *POLICIES])
def test_truth(lab, entry):
    """Samples by NMI, without skid: each at the instruction after the overflow."""
    found = check(lab, entry, "0")
    assert set(found.ways.skids) == {0}, found.ways.skids
    return f"{found.samples} samples, {found.by_function:.4f} by function, {found.by_instruction:.4f} by instruction"


@pytest.mark.full
@pytest.mark.parametrize("entry", ["native", *sampling.POLICIES])
def test_skid(lab, entry):
    """The policy adds nothing to the processor's skid."""
    found = check(lab, entry, SKIDS[1])
    assert set(found.ways.skids) == set(range(sampling.SKIDS)), found.ways.skids
    return f"{found.by_function:.4f} by function, {found.by_instruction:.4f} by instruction"


@pytest.mark.full
@pytest.mark.parametrize("entry", ["native", *sampling.POLICIES])
def test_short_functions(lab, entry):
    """A skid moves many samples to another function. As it is the same at each instruction, the shares stay."""
    found = sampling.answer(sampling.boot(lab, entry, skid=SKIDS[1], load="shorts"), "nmi", load="shorts")
    assert found.elsewhere > 0.2 and found.by_function < MAX_APART, found
    return f"{found.elsewhere:.2f} elsewhere, {found.by_function:.4f} by function"


@pytest.mark.full
@pytest.mark.parametrize("entry", sampling.KVMS)
def test_kvm(lab, entry):
    """KVM's emulated vPMU, and its mediated one."""
    found = sampling.answer(sampling.boot(lab, entry), "nmi")
    assert found.samples > 500 and found.by_function < MAX_APART, found
    return f"{found.by_function:.4f} by function, {found.ways.merged} merged, {found.ways.lost} lost"


@pytest.mark.full
@pytest.mark.parametrize("way", ["pebs", "lbr-blocks", "lbr-target", "pt"])
def test_other_ways(lab, way):
    found = sampling.answer(sampling.boot(lab, "native", sampling.NATIVE_WAYS), way)
    assert found.by_function < MAX_APART, found
    return f"{found.samples} samples, {found.by_function:.4f} by function, {found.by_instruction:.4f} by instruction"


@pytest.mark.full
def test_round_period(lab):
    """A period of a multiple of the loop's instructions finds one of them alone."""
    done = sampling.boot(lab, "native", periods=(sampling.PERIOD, sampling.ROUND))
    prime, whole = (sampling.answer(done, "nmi", period) for period in (sampling.PERIOD, sampling.ROUND))
    assert whole.by_instruction > 0.5 > prime.by_instruction, (prime, whole)
    return f"{prime.by_instruction:.3f} and {whole.by_instruction:.3f} by instruction"


def test_mutant(lab):
    """Samples whose addresses are moved by a function's length are found to be wrong."""
    done = sampling.boot(lab, "native")
    of = sampling.functions("listing2")
    found = sampling.samples(done, f"nmi-{sampling.PERIOD}")
    moved, right = {}, {}
    for at, _ in found:
        moved[at + 0x30] = moved.get(at + 0x30, 0) + 1
        right[at] = right.get(at, 0) + 1
    apart = shares.distance(shares.share(of.counts(moved)), shares.share(of.counts(right)))
    assert apart > MAX_APART, apart
    return f"moved by 48 bytes: {apart:.2f} apart"
