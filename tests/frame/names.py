# SPDX-License-Identifier: BSD-2-Clause
# names.py: what tests are called and which of them run. A test's name is "group/test": the file's
# name and the function's, both without test_; of a parametrized one the parameters' id is all of
# the second part. --named "WORD ..." runs those whose name contains one of the words; --collect-only
# says the names.
import collections
import os

import pytest

NAME = pytest.StashKey[str]()


def pytest_addoption(parser):
    parser.addoption("--named", default="", metavar="WORDS",
                     help="only tests whose name, group/test, contains one of these words")


def group_of(item):
    marker = item.get_closest_marker("group")
    if marker:
        return marker.args[0]
    stem = item.path.stem.removeprefix("test_")
    return f"bench/{stem}" if item.path.parent.name == "bench" else stem


def name_of(item):
    if not isinstance(item, pytest.Function):
        return item.name
    callspec = getattr(item, "callspec", None)
    test = callspec.id if callspec else item.originalname or item.name
    return f"{group_of(item)}/{test.removeprefix('test_')}"


def wanted(item, words):
    if item.get_closest_marker("full") and os.environ.get("FULL") != "1":
        return False
    return not words or any(word in item.stash[NAME] for word in words)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        item.stash[NAME] = name_of(item)
    count = collections.Counter(item.stash[NAME] for item in items)
    twice = [name for name, number in count.items() if number > 1]
    if twice:
        raise pytest.UsageError(f"several tests have the same name: {', '.join(twice)}")
    words = config.option.named.split()
    left_out = [item for item in items if not wanted(item, words)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if wanted(item, words)]


def pytest_collection_finish(session):
    if session.config.option.collectonly:
        for item in session.items:
            print(item.stash[NAME])
