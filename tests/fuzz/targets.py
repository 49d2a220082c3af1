# SPDX-License-Identifier: BSD-2-Clause
# targets.py: the fuzz targets that fuzz.mk built, and their corpus. As a program: puts what runs
# have found beside the corpus, and leaves out what adds nothing.
# Usage: python3 -m tests.fuzz.targets [TARGET ...]
import concurrent.futures
import os
import re
import shutil
import sys

from tests.commands import run

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "fuzz")
NAMES = sorted(name[:-2] for name in os.listdir(HERE) if name.endswith(".c"))
KEPT = 1300  # bytes of an input in the corpus: setup sectors of a kernel are 1024


def corpus(target):
    return os.path.join(HERE, "corpus", target)


def reason_of(text):
    """What the target, a sanitizer or libFuzzer said went wrong."""
    found = re.search(r"wanted .*|runtime error: .*|SUMMARY: .*", text)
    return found[0] if found else (text.strip().splitlines() or ["no output"])[-1]


def merge(target):
    """Puts what runs have found into the corpus, and leaves out what adds nothing."""
    work = os.path.join(BUILD, "work", target)
    new = os.path.join(BUILD, "merged", target)
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    os.makedirs(work, exist_ok=True)
    status, text = run(
        os.path.join(BUILD, target),
        "-set_cover_merge=1",
        "-use_counters=0",
        f"-max_len={KEPT}",
        new,
        corpus(target),
        work,
    )
    print(f"{target}: {len(os.listdir(new))} inputs in {new}" if status == 0 else text)
    return status == 0


def main():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        return not all(several.map(merge, sys.argv[1:] or NAMES))


if __name__ == "__main__":
    sys.exit(main())
