# SPDX-License-Identifier: BSD-2-Clause
# test_sequences.py: the fuzzer of sequences (tests/kernel/sequence.c): under each drawn row of
# options the guest gets what the machine itself gives, event by event.
import sequences
from machine import STATUS_POWEROFF
from sequences import Row

COUNT = 3200
SEED = 1


def test_native(lab):
    """The sequences themselves: none of them stops the machine, and each kind of event is there."""
    row = Row("msr+nmi", "")
    run = sequences.native(lab, SEED, COUNT, row)
    run.expect_status(STATUS_POWEROFF)
    assert len(sequences.hashes(run)) == COUNT // sequences.STEP, run.last_line()
    line = run.lines("sequences")[0]
    assert int(line["events"]) > COUNT, line
    return f"{line['events']} events in {COUNT} sequences"
