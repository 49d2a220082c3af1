# SPDX-License-Identifier: BSD-2-Clause
# test_fuzz_targets.py: runs the fuzz targets that fuzz.mk built: first the corpus, where inputs
# that once crashed are kept, then new inputs for a while; and each with a planted bug, which it has
# to find. FULL=1: ten million new inputs for each target instead of 100,000.
import functools
import os
import re
import shutil

import pytest

from testbed.store import digest, digest_below
from tests.fuzz.targets import BUILD, NAMES, corpus, reason_of, run

FULL = os.environ.get("FULL") == "1"
RUNS = 10_000_000 if FULL else 100_000
PLANTED_RUNS = 1_000_000  # at most: it ends when the bug is found
# A fixed seed: two runs differ in their length only. In full runs each tries something else.
OPTIONS = [
    "-seed=0" if FULL else "-seed=1",
    "-max_len=4096",
    "-timeout=3600",
    "-rss_limit_mb=2048",
    "-print_final_stats=1",
]


def kept(lab, name, function, target, program):
    """Kept while the program and the corpus are the same; a full run tries something else each
    time."""
    call = functools.partial(function, target)
    if FULL:
        return lab.once(name, call).wait()
    return lab.value(
        name,
        lambda: [digest(__file__), digest(program), digest_below(corpus(target))],
        lambda folder: call(),
        targets=[program],
    ).wait()


def corpus_holds(target):
    status, text = run(os.path.join(BUILD, target), "-runs=0", corpus(target))
    inputs = len(os.listdir(corpus(target)))
    assert inputs > 0, "the corpus is empty"
    assert status == 0, f"an input of tests/fuzz/corpus/{target} failed: {reason_of(text)}"
    return f"{inputs} inputs"


def new_inputs(target):
    # What is new goes into the first folder that libFuzzer is given: never the corpus.
    work = os.path.join(BUILD, "work", target)
    os.makedirs(work, exist_ok=True)
    status, text = run(
        os.path.join(BUILD, target),
        f"-runs={RUNS}",
        f"-artifact_prefix={work}-",
        *OPTIONS,
        work,
        corpus(target),
    )
    if status != 0:
        kept = re.search(r"Test unit written to (\S+)", text)
        raise AssertionError(
            f"{reason_of(text)}; put the input into tests/fuzz/corpus/{target}: "
            f"{kept[1] if kept else 'none was written'}"
        )
    tried = re.search(r"number_of_executed_units: (\d+)", text)
    assert tried and int(tried[1]) > 1000, f"few inputs were tried: {tried and tried[1]}"
    return f"{tried[1]} inputs"


def planted_is_found(target):
    program = os.path.join(BUILD, "planted", target)
    work = program + "-work"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    status, text = run(
        program,
        f"-runs={PLANTED_RUNS}",
        f"-artifact_prefix={program}-",
        *OPTIONS,
        work,
        corpus(target),
    )
    assert status != 0, f"not found in {PLANTED_RUNS} inputs"
    return f"found: {reason_of(text)}"


@pytest.mark.parametrize("target", NAMES, ids=[f"{name}_corpus" for name in NAMES])
def test_corpus(lab, target):
    return kept(lab, f"fuzz-corpus-{target}", corpus_holds, target, os.path.join(BUILD, target))


@pytest.mark.parametrize("target", NAMES, ids=[f"{name}_new" for name in NAMES])
def test_new(lab, target):
    return kept(lab, f"fuzz-new-{target}", new_inputs, target, os.path.join(BUILD, target))


@pytest.mark.parametrize("target", NAMES, ids=[f"{name}_planted" for name in NAMES])
def test_planted(lab, target):
    return kept(
        lab,
        f"fuzz-planted-{target}",
        planted_is_found,
        target,
        os.path.join(BUILD, "planted", target),
    )
