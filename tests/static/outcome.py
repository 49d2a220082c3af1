# SPDX-License-Identifier: BSD-2-Clause
# outcome.py: runs checks and says "ok NAME: TEXT" or "FAIL NAME: REASON", as tests/e2e/run.py reads it.
import subprocess


def attempt(name, check, *arguments):
    """Whether the check came to its end; its result is what is said of it."""
    try:
        said = check(*arguments)
    except (AssertionError, OSError, subprocess.SubprocessError) as trouble:
        print(f"FAIL {name}: {trouble}", flush=True)
        return False
    print(f"ok {name}{f': {said}' if said else ''}", flush=True)
    return True


def all_of(namespace):
    """Every function test_NAME of a module's globals(). The exit status."""
    good = [attempt(name[5:], check) for name, check in list(namespace.items())
            if name.startswith("test_")]
    return 0 if all(good) else 1
