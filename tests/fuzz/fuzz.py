#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# fuzz.py: runs the fuzz targets that fuzz.mk built: first the corpus, where inputs that once
# crashed are kept, then new inputs for a while; and each with a planted bug, which it has to find. One line
# per test: "ok NAME" or "FAIL NAME: reason".
# Usage: fuzz.py [--merge] [TARGET ...]      FULL=1: 10 minutes for each target instead of 10 s
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "static"))
sys.dont_write_bytecode = True

import outcome  # noqa: E402

BUILD = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "fuzz")
FULL = os.environ.get("FULL", "0") not in ("", "0")
RUNS = 10_000_000 if FULL else 200_000
KEPT = 1300 # bytes of an input in the corpus: setup sectors of a kernel are 1024
PLANTED_RUNS = 1_000_000 # at most: it ends when the bug is found
BACKSTOP_SECONDS = 6 * 3600
# A fixed seed: two runs differ in their length only. In full runs each tries something else.
OPTIONS = ["-seed=0" if FULL else "-seed=1", "-max_len=4096", "-timeout=3600",
           "-rss_limit_mb=2048", "-print_final_stats=1"]


def corpus(target):
    return os.path.join(HERE, "corpus", target)


def run(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=BACKSTOP_SECONDS, check=False)
    return done.returncode, done.stdout


def reason_of(text):
    """What the target, a sanitizer or libFuzzer said went wrong."""
    found = re.search(r"wanted .*|runtime error: .*|SUMMARY: .*", text)
    return found[0] if found else (text.strip().splitlines() or ["no output"])[-1]


def try_corpus(target):
    status, text = run(os.path.join(BUILD, target), "-runs=0", corpus(target))
    inputs = len(os.listdir(corpus(target)))
    assert inputs > 0, "the corpus is empty"
    assert status == 0, f"an input of tests/fuzz/corpus/{target} failed: {reason_of(text)}"
    return f"{inputs} inputs"


# What is new goes into the first folder that libFuzzer is given: never the corpus.
def try_new(target):
    work = os.path.join(BUILD, "work", target)
    os.makedirs(work, exist_ok=True)
    status, text = run(os.path.join(BUILD, target), f"-runs={RUNS}",
                       f"-artifact_prefix={work}-", *OPTIONS, work, corpus(target))
    if status != 0:
        kept = re.search(r"Test unit written to (\S+)", text)
        raise AssertionError(f"{reason_of(text)}; put the input into tests/fuzz/corpus/{target}: "
                             f"{kept[1] if kept else 'none was written'}")
    tried = re.search(r"number_of_executed_units: (\d+)", text)
    assert tried and int(tried[1]) > 1000, f"few inputs were tried: {tried and tried[1]}"
    return f"{tried[1]} inputs"


def try_planted(target):
    program = os.path.join(BUILD, "planted", target)
    work = program + "-work"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    status, text = run(program, f"-runs={PLANTED_RUNS}",
                       f"-artifact_prefix={program}-", *OPTIONS, work, corpus(target))
    assert status != 0, f"not found in {PLANTED_RUNS} inputs"
    return f"found: {reason_of(text)}"


def merge(target):
    """Puts what runs have found into the corpus, and leaves out what adds nothing."""
    work = os.path.join(BUILD, "work", target)
    new = os.path.join(BUILD, "merged", target)
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    os.makedirs(work, exist_ok=True)
    status, text = run(os.path.join(BUILD, target), "-set_cover_merge=1", "-use_counters=0",
                       f"-max_len={KEPT}", new, corpus(target), work)
    print(f"{target}: {len(os.listdir(new))} inputs in {new}" if status == 0 else text)
    return status == 0


def try_target(target):
    return all([outcome.attempt(f"{target}_{name}", test, target)
                for name, test in (("corpus", try_corpus), ("new", try_new),
                                   ("planted", try_planted))])


def main():
    targets = sorted(name[:-2] for name in os.listdir(HERE) if name.endswith(".c"))
    parser = argparse.ArgumentParser(description="Runs the fuzz targets.")
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("target", nargs="*", default=targets)
    arguments = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        if arguments.merge:
            return not all(several.map(merge, arguments.target))
        return not all(several.map(try_target, arguments.target))


if __name__ == "__main__":
    sys.exit(main())
