# SPDX-License-Identifier: BSD-2-Clause
# outcome.py: what became of a test's function, which may have run before pytest asks for it.
import time

import machine
import pytest


class Outcome:
    """What became of a test's function."""

    def __init__(self, function, *arguments, **keywords):
        started = time.monotonic()
        self.value = self.error = None
        try:
            self.value = function(*arguments, **keywords)
        except BaseException as trouble:  # pytest's own exceptions are none of Exception's
            self.error = trouble
        self.seconds = time.monotonic() - started


OUTCOME = pytest.StashKey[Outcome]()


def deliver(item, function, **keywords):
    """Ends as the function did that was run ahead for this test, or does now."""
    if OUTCOME not in item.stash:
        item.stash[OUTCOME] = Outcome(function, **keywords)
    error = item.stash[OUTCOME].error
    if isinstance(error, machine.Skip):
        pytest.skip(str(error))
    if error is not None:
        raise error
