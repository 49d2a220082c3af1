# SPDX-License-Identifier: BSD-2-Clause
# test_noise.py: sessions on the double of a machine that is not quiet (the knob tsc_noise of the
# emulator), through importer and report. All columns measure the same boot, so only what the knob
# plants differs: planted differences are told as what they are, none is told if there is none,
# and the drift is seen.
import functools
import os
import random
import re
import tempfile

import pytest

from bench import figures, importer, report, tables
from bench.results import COLUMNS
from testbed import boots, emulated, machine
from testbed.boots import Boot
from testbed.machine import STATUS_POWEROFF

SESSIONS, ENOUGH = 20, 19
ROUNDS, REPETITIONS = 5, 3
# What each column has more than `native`, in millionths; in this order the columns are only names.
PLANTED = {"native": 0, "kvm": 0, "intercept": 5000, "msr": 10000, "msr+nmi": 50000}
JITTER, DRIFT, SMI = 1000, 4000, 4000000
SESSION_TICKS = 1000000000  # DRIFT is over these
JOB = "measure:exit:11:200"
TESTS = ",".join(["measure:smis", *([JOB, "measure:smis"] * REPETITIONS)])
ITEM = ("exit", "cpuid")


def starts_of(number):
    """(round, position, column) of a session, shuffled within each round."""
    shuffle = random.Random(number).shuffle
    for place in range(1, ROUNDS + 1):
        order = list(PLANTED)
        shuffle(order)
        for position, column in enumerate(order, 1):
            yield place, position, column


def described(number, place, position, column):
    """The boot that is this start. Every second session is on a machine that drifts."""
    passed = (place - 1) * len(PLANTED) + position - 1
    starts = ROUNDS * len(PLANTED)
    knob = (
        f"tsc_noise seed={(number * ROUNDS + place) * len(PLANTED) + position} jitter={JITTER} "
        f"smi={SMI} slow={PLANTED[column]} drift={DRIFT if drifts(number) else 0} "
        f"since={passed * SESSION_TICKS // starts}\n"
    )
    return emulated.emulated(
        f"noise-{number}-{place}.{column}",
        entry="msr+nmi",
        kernel=boots.TEST_KERNEL,
        initrd={},
        append=f"tests={TESTS}",
        knobs=knob,
    )


def drifts(number):
    return number % 2 == 0


def file_of(place, position, column, console):
    """The file that a bare machine would have left."""
    out = [
        'env: kind="metal"\nenv: cpu="the double of a noisy machine"\n',
        f'env: column="{column}"\nenv: round="{place}"\nenv: position="{position}"\n',
    ]
    number, smis, lines = 0, None, []
    for line in console.splitlines():
        said = re.fullmatch(r"# SMIs: (\d+)", line)
        if line.startswith("bench: "):
            lines.append(line + "\n")
        elif said:
            if smis is not None:
                number += 1
                out.append(f"sample: job=exit number={number} smis={int(said[1]) - smis}\n")
                out += lines
            smis, lines = int(said[1]), []
    return "".join([*out, f"end: column={column} status=0\n"])


def start_text(number, start):
    """Boots, and keeps nothing but the file."""
    what = described(number, *start)
    with tempfile.TemporaryDirectory(prefix="pmuvisor-noise.", dir=machine.SCRATCH) as folder:
        boot = Boot(what.name, folder, what.make(folder))
        boot.expect_status(STATUS_POWEROFF)
        return file_of(*start, boot.console)


def session_texts(number):
    calls = [functools.partial(start_text, number, start) for start in starts_of(number)]
    texts, interrupted = machine.call_all(calls, os.cpu_count())
    if interrupted:
        raise KeyboardInterrupt
    return texts


def session(lab, number):
    """The report's machine of a session."""
    first = described(number, *next(starts_of(number)))

    def inputs():
        return [
            first.inputs(),
            [described(number, *one).machine.knobs for one in starts_of(number)],
        ]

    texts = lab.value(
        f"noise-{number}",
        inputs,
        lambda folder: session_texts(number),
        targets=first.targets(),
        kind="boots of the test kernel",
    )
    found, notes, status = importer.run({str(at): text for at, text in enumerate(texts)})
    assert (notes, status) == ([], 0)
    ((one,), _) = report.by_machine([found])
    return one


def told(one, column):
    """What the report's table says of the difference to native."""
    rows = tables.make(one, "t43").rows
    labels = [row.label for row in rows]
    at = labels.index("differs from native by (99 %)", labels.index("CPUID"))
    return rows[at].cells[COLUMNS.index(column)].text


@pytest.mark.full
def test_sessions_on_a_noisy_machine(lab):
    sessions = [session(lab, number) for number in range(SESSIONS)]
    for column, planted in PLANTED.items():
        if column == "native":
            continue
        said = [told(one, column) for one in sessions]
        if planted == 0:
            assert said.count("no difference told") >= ENOUGH, said
            continue
        numbers = [[float(text) for text in re.findall(r"-?[\d.]+", each)] for each in said]
        right = [one for one in numbers if len(one) == 3 and one[1] <= planted / 1e4 <= one[2]]
        assert len(right) >= ENOUGH, said
    seen = [figures.session_drift(one) for one in sessions]
    drifted = [drift.told for number, drift in enumerate(seen) if drifts(number)]
    steady = [drift.told for number, drift in enumerate(seen) if not drifts(number)]
    assert all(drifted) and sum(steady) <= 1, seen
    # SMIs stand beside their samples, and each session has some.
    assert all(sum(each["smis"] for each in one.repetitions) > 0 for one in sessions)
    assert "The machine drifted" in report.text_of(sessions[:1])
