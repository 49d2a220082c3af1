# SPDX-License-Identifier: BSD-2-Clause
# schedule.py: runs the boots of a plan, several at once, and says after each how far it is.
import functools
import itertools
import time

from bench import judge
from testbed.machine import call_all


def lines_of(outcome, place, seconds):
    """What is said of a boot that has ended."""
    boot = outcome.boot
    troubles = [outcome.failure] * bool(outcome.failure) + outcome.errors
    state = "failed" if outcome.failure else f"{len(troubles)} errors" if troubles else "ok"
    title = f"{boot.title}, second run" if boot.first else boot.title
    clock = f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
    yield (
        f"[{place}] {boot.column:9} {title:40} {outcome.seconds:6.1f} s  {state:8} "
        f"elapsed {clock}"
    )
    yield from (f"bench: boot {boot.name}: {text}" for text in troubles + outcome.notes)


def run(launcher, boots, kind, say):
    """(outcomes in the plan's order, whether it was interrupted)."""
    started, numbers, width = time.monotonic(), itertools.count(1), len(str(len(boots)))

    def one(boot):
        try:
            outcome = judge.judge(boot, launcher.start(boot), kind)
        except AssertionError as trouble:
            outcome = judge.failed(boot, f"cannot be started: {trouble}")
        except Exception as trouble:  # whatever it is, it is this boot's, and the others go on
            outcome = judge.failed(boot, f"{type(trouble).__name__}: {trouble}")
        place = f"{next(numbers):{width}}/{len(boots)}"
        say("\n".join(lines_of(outcome, place, time.monotonic() - started)))
        return outcome

    say(f"bench: {len(boots)} boots, {launcher.jobs} at once")
    calls = [functools.partial(one, boot) for boot in boots]
    outcomes, interrupted = call_all(calls, launcher.jobs)
    if interrupted:
        say("bench: interrupted; what has ended is kept")
    return [
        outcome or judge.failed(boot, "interrupted") for boot, outcome in zip(boots, outcomes)
    ], interrupted
