# SPDX-License-Identifier: BSD-2-Clause
# test_stacks_seen.py: threads by their stacks, on runs made by hand.
from experiments.flow.analysis import stacks_seen, truth

KERNEL_A, KERNEL_B, USER_A = 0xFFFF_C900_0000_4000, 0xFFFF_C900_0000_8000, 0x7FFF_0000_0000
FAR = 10 * truth.NEAR_TICKS
TRUE = truth.Truth(
    {
        0: [
            (0, FAR, 7, 70),
            (FAR, 2 * FAR, 7, 71),
            (2 * FAR, 3 * FAR, truth.IDLE, 0),
            (3 * FAR, 4 * FAR, 7, 70),
            (4 * FAR, 5 * FAR, 7, 71),
        ]
    },
    {},
    0,
    5 * FAR,
)


def test_stack_of():
    assert stacks_seen.stack_of(KERNEL_A) == stacks_seen.stack_of(KERNEL_A + 0x3FFF)
    assert stacks_seen.stack_of(KERNEL_A) != stacks_seen.stack_of(KERNEL_B)
    assert stacks_seen.stack_of(USER_A) == stacks_seen.stack_of(USER_A + 0x1F_FFFF)


def test_all_seen():
    found = [(start, end, (1, tid)) for start, end, _, tid in TRUE.processors[0]]
    score = stacks_seen.score(found, TRUE)
    assert (score.stacks, score.switches, score.found) == (3, 2, 2)
    assert score.right == score.right_process == score.time == 4 * FAR


def test_one_not_seen():
    """The second thread shows late: its time before is the first one's, of the same process."""
    found = [
        (0, FAR + FAR // 2, (1, 70)),
        (FAR + FAR // 2, 2 * FAR, (1, 71)),
        (2 * FAR, 3 * FAR, (1, 0)),
        (3 * FAR, 4 * FAR, (1, 70)),
        (4 * FAR, 5 * FAR, (1, 71)),
    ]
    score = stacks_seen.score(found, TRUE)
    assert (score.switches, score.found) == (2, 1)
    assert score.right == 3.5 * FAR and score.right_process == score.time == 4 * FAR
