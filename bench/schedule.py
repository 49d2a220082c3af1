# SPDX-License-Identifier: BSD-2-Clause
# schedule.py: runs the boots of a plan, some at once, the longest first, and says after each how
# far it is. How long each took is kept in a file, for the next run's estimate.
import concurrent.futures
import contextlib
import json
import os
import threading
import time

import judge


def clock(seconds):
    seconds = int(seconds + 0.5)
    return f"{seconds // 60}:{seconds % 60:02d}"


class Durations:
    """Seconds of earlier boots by kind and name, in a file that may be missing."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        try:
            with open(name, encoding="utf-8") as source:
                self.known = json.load(source)
        except (OSError, ValueError):
            self.known = {}
        if not isinstance(self.known, dict):
            self.known = {}

    def key(self, boot):
        return f"{self.kind} {boot.name} {boot.append}".strip()

    def estimate(self, boot):
        seconds = self.known.get(self.key(boot))
        return seconds if isinstance(seconds, (int, float)) and seconds > 0 else boot.estimate

    def keep(self, boot, seconds):
        self.known[self.key(boot)] = round(seconds, 1)
        new = f"{self.name}.new"
        # Only an estimate is lost where the disk is full; the run is not.
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.name), exist_ok=True)
            with open(new, "w", encoding="utf-8") as out:
                json.dump(self.known, out, indent=1, sort_keys=True)
            os.replace(new, self.name)


def remaining(left, running, jobs):
    """Seconds until the end, where `left` are estimates of boots that have not begun, and `running`
    what is left of those that have: each next one goes where it can begin first."""
    ends = sorted([max(seconds, 0) for seconds in running] + [0] * (jobs - len(running)))
    for seconds in sorted(left, reverse=True):
        ends[0] += seconds
        ends.sort()
    return ends[-1] if ends else 0


class Progress:
    """One line for each boot that ends."""

    def __init__(self, boots, jobs, durations, say):
        self.boots, self.jobs, self.durations, self.say = boots, jobs, durations, say
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.begun, self.done = {}, set()

    def total(self):
        return remaining([self.durations.estimate(boot) for boot in self.boots], [], self.jobs)

    def begin(self, boot):
        with self.lock:
            self.begun[boot.name] = time.monotonic()

    def end(self, outcome):
        boot = outcome.boot
        with self.lock:
            self.done.add(boot.name)
            if not outcome.failure:
                self.durations.keep(boot, outcome.seconds)
            now = time.monotonic()
            left = [self.durations.estimate(other) for other in self.boots
                    if other.name not in self.begun]
            running = [self.durations.estimate(other) - (now - self.begun[other.name])
                       for other in self.boots
                       if other.name in self.begun and other.name not in self.done]
            state = "failed" if outcome.failure else \
                f"{len(outcome.errors)} errors" if outcome.errors else "ok"
            width = len(str(len(self.boots)))
            self.say(f"[{len(self.done):{width}}/{len(self.boots)}] {boot.column:9} "
                     f"{boot.title:28} {outcome.seconds:6.1f} s  {state:8} "
                     f"elapsed {clock(now - self.started)}, about "
                     f"{clock(remaining(left, running, self.jobs))} left")
            for text in ([outcome.failure] if outcome.failure else []) + outcome.errors + \
                    outcome.notes:
                self.say(f"bench: boot {boot.name}: {text}")


def one(launcher, boot, progress, kind, stopped):
    if stopped.is_set():
        return judge.failed(boot, "interrupted")
    progress.begin(boot)
    begun = time.monotonic()
    try:
        outcome = judge.judge(boot, launcher.start(boot), kind)
    except AssertionError as trouble:
        outcome = judge.failed(boot, f"cannot be started: {trouble}", time.monotonic() - begun)
    except Exception as trouble:  # whatever it is, it is this boot's, and the others go on
        outcome = judge.failed(boot, f"{type(trouble).__name__}: {trouble}",
                               time.monotonic() - begun)
    if stopped.is_set():
        outcome = judge.failed(boot, "interrupted", time.monotonic() - begun)
    progress.end(outcome)
    return outcome


def run(launcher, boots, kind, jobs, durations, say):
    """(outcomes in the plan's order, whether it was interrupted)."""
    progress = Progress(boots, jobs, durations, say)
    say(f"bench: {len(boots)} boots, {jobs} at once, about {clock(progress.total())}")
    order = sorted(boots, key=durations.estimate, reverse=True)
    stopped = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {boot.name: pool.submit(one, launcher, boot, progress, kind, stopped)
                   for boot in order}
        try:
            concurrent.futures.wait(futures.values())
        except KeyboardInterrupt:
            say("bench: interrupted; what has ended is kept")
            stopped.set()
            launcher.stop()
            concurrent.futures.wait(futures.values())
    return [futures[boot.name].result() for boot in boots], stopped.is_set()
