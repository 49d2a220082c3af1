# SPDX-License-Identifier: BSD-2-Clause
# schedule.py: runs the boots of a plan by testbed/lab.py, and says after each how far it is.
import functools
import threading
import time

from bench import judge


def clock(seconds):
    seconds = int(seconds + 0.5)
    return f"{seconds // 60}:{seconds % 60:02d}"


class Progress:
    """One line for each boot that ends."""

    def __init__(self, count, say):
        self.count, self.say = count, say
        self.lock = threading.Lock()
        self.started, self.done = time.monotonic(), 0

    def end(self, outcome):
        boot = outcome.boot
        with self.lock:
            self.done += 1
            state = "ok"
            if outcome.failure:
                state = "failed"
            elif outcome.errors:
                state = f"{len(outcome.errors)} errors"
            width = len(str(self.count))
            self.say(
                f"[{self.done:{width}}/{self.count}] {boot.column:9} {boot.title:28} "
                f"{outcome.seconds:6.1f} s  {state:8} "
                f"elapsed {clock(time.monotonic() - self.started)}"
            )
            for text in (
                ([outcome.failure] if outcome.failure else []) + outcome.errors + outcome.notes
            ):
                self.say(f"bench: boot {boot.name}: {text}")


def one(launcher, boot, progress, kind):
    try:
        outcome = judge.judge(boot, launcher.start(boot), kind)
    except AssertionError as trouble:
        outcome = judge.failed(boot, f"cannot be started: {trouble}")
    except Exception as trouble:  # whatever it is, it is this boot's, and the others go on
        outcome = judge.failed(boot, f"{type(trouble).__name__}: {trouble}")
    progress.end(outcome)
    return outcome


def run(launcher, boots, kind, say):
    """(outcomes in the plan's order, whether it was interrupted)."""
    progress = Progress(len(boots), say)
    say(f"bench: {len(boots)} boots, {launcher.lab.jobs} at once")
    calls = launcher.lab.plan(
        [functools.partial(one, launcher, boot, progress, kind) for boot in boots]
    )
    interrupted = False
    try:
        for call in calls:
            call.future.result()
    except KeyboardInterrupt:
        say("bench: interrupted; what has ended is kept")
        interrupted = True
    launcher.lab.close()
    return [
        call.future.result() if call.future.done() else judge.failed(boot, "interrupted")
        for boot, call in zip(boots, calls)
    ], interrupted
