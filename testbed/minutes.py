# SPDX-License-Identifier: BSD-2-Clause
# minutes.py: where the time of tests went, by kind.
import collections
import contextlib
import time

LOCKS, BUILDS, FUNCTIONS = "waiting for another worker", "builds", "test functions"


class Minutes:
    """Seconds by kind, and how often. What is counted inside another kind is not counted twice."""

    def __init__(self):
        self.seconds, self.number = collections.Counter(), collections.Counter()

    @contextlib.contextmanager
    def counted(self, kind):
        """`kind`: a text, or a function that is called at the end and returns one."""
        began, before = time.monotonic(), self.seconds.total()
        try:
            yield
        finally:
            inside = self.seconds.total() - before
            name = kind() if callable(kind) else kind
            self.seconds[name] += time.monotonic() - began - inside
            self.number[name] += 1

    def take(self):
        """Returns what was counted since the last time, as JSON can say it."""
        taken = {kind: [spent, self.number[kind]] for kind, spent in self.seconds.items()}
        self.seconds.clear()
        self.number.clear()
        return taken

    def add(self, taken):
        for kind, (spent, number) in taken.items():
            self.seconds[kind] += spent
            self.number[kind] += number

    def lines(self):
        yield f"{'minutes':>8} {'number':>7}"
        for kind, spent in self.seconds.most_common():
            yield f"{spent / 60:8.1f} {self.number[kind]:7} {kind}"
