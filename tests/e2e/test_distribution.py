# SPDX-License-Identifier: BSD-2-Clause
# test_distribution.py: the README's two commands where it says that they hold: on a new Debian
# (distribution.py).
import os
import re
import shutil

import pytest

from testbed.machine import Skip
from tests.e2e.distribution import LOGS, RELEASES, folder, inside, mounted_below, new_root

COMMANDS = ("run", "check")
SUM = re.compile(r"^=+ (.*) in [\d.]+s.* =+$", re.MULTILINE)  # pytest's last line


def verdict(command, status, text):
    """What a command's end says; raises where it is not good."""
    tail = "\n".join(
        [line for line in text.splitlines() if " FAILED" in line][:20] or text.splitlines()[-5:]
    )
    assert status == 0, f"make {command}: exit status {status}: {tail}"
    if command == "run":
        return "make run: status 0"
    sums = SUM.findall(text)
    assert sums, f"make {command}: no sum of tests: {tail}"
    count = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", sums[-1])}
    bad = count.get("failed", 0) + count.get("error", 0) + count.get("errors", 0)
    assert count.get("passed", 0) > 0 and bad == 0, f"make {command}: {sums[-1]}: {tail}"
    return f"make check: {count['passed']} passed, {bad} failed, {count.get('skipped', 0)} skipped"


@pytest.mark.full
@pytest.mark.parametrize("release", RELEASES, ids=[f"debian_{name}" for name in RELEASES])
def test_distribution(release):
    if os.geteuid() != 0:
        raise Skip("debootstrap and chroot want root; as root run: FULL=1 make e2e T=distribution/")
    assert shutil.which("debootstrap"), "debootstrap is missing; run: testbed/deps.sh full"
    said = []
    with folder(release) as root:
        with open(os.path.join(LOGS, f"{release}-debootstrap.log"), "w", encoding="utf-8") as log:
            new_root(root, RELEASES[release], log)
        for command in COMMANDS:
            name = os.path.join(LOGS, f"{release}-{command}.log")
            with open(name, "w", encoding="utf-8") as log:
                status = inside(root, log, "make", command)
            with open(name, encoding="utf-8", errors="replace") as log:
                said.append(verdict(command, status, log.read()))
        left = mounted_below(root)
        assert not left, f"left mounted: {left}"
    return "; ".join(said)


def test_verdict():
    """What has to be refused is."""
    good = "a.py::b PASSED (1.0 s)\n=== 7 passed, 1 skipped, 9 deselected in 2.50s ===\n"
    assert verdict("check", 0, good) == "make check: 7 passed, 0 failed, 1 skipped"
    assert verdict("run", 0, "no exits") == "make run: status 0"
    for command, status, text in (
        ("run", 2, "PMUvisor refuses to start"),
        ("check", 2, good),
        ("check", 0, "built\n"),
        ("check", 0, "=== 1 failed, 7 passed in 2.50s (0:00:02) ===\n"),
        ("check", 0, "=== 7 passed, 1 error in 2.50s ===\n"),
        ("check", 0, "=== 9 skipped in 2.50s ===\n"),
    ):
        with pytest.raises(AssertionError):
            verdict(command, status, text)
