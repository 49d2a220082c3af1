# SPDX-License-Identifier: BSD-2-Clause
# test_distribution.py: the README's two commands where it says that they hold: on a Debian that
# debootstrap has just made, with git and make, and on a clone of this tree's HEAD. Of this machine
# they see its processors, its kernel and $DISTFILES; packages, the guest's kernels and, without
# $DISTFILES, the emulator's source come from the mirror that apt is configured with here.
#
# What is mounted is so in a mount namespace that ends with the last process of the run, and nothing
# of the machine's own is bound there: whatever ends the test, it leaves a plain folder.
import os
import re
import shutil
import subprocess
import tempfile

import pytest
from machine import BACKSTOP_SECONDS, TOP, Skip, path

RELEASES = {"12": "bookworm", "13": "trixie"}
COMMANDS = ("run", "check")
PACKAGES = "git,make"
TREE, DISTFILES = "/root/pmuvisor", "/root/distfiles"
# The machine's own folders are not there: debootstrap has made the devices that are needed.
ENTER = """set -e
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sysfs "$0/sys"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
mount -t tmpfs tmpfs "$0/dev/shm"
exec chroot "$0" "$@"
"""
# All processes of the run end with the first of them, and that with unshare.
UNSHARE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy")
SUM = re.compile(r"^=+ (.*) in [\d.]+s.* =+$", re.MULTILINE)  # pytest's last line


def mirror():
    """Where apt gets Debian from here; none: debootstrap's own."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)",
                           "Created-By: Packages", "Origin: Debian", "Component: main"],
                          capture_output=True, text=True, check=False)
    return [uri for uri in done.stdout.split() if uri.rstrip("/").endswith("/debian")][:1]


def new_root(root, suite, log):
    os.chmod(root, 0o755)  # apt fetches as a user of its own
    source = mirror()
    packages = PACKAGES + (",ca-certificates" if "".join(source).startswith("https:") else "")
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", suite, root,
                    *source], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
                   timeout=BACKSTOP_SECONDS)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", TOP, root + TREE], check=True,
                   stdout=log, stderr=log)
    if os.environ.get("DISTFILES"):
        shutil.copytree(os.environ["DISTFILES"], root + DISTFILES)


def inside(root, log, *command):
    """Runs a command in the tree; gives its status."""
    words = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
             "DISTFILES": DISTFILES,
             **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}
    return subprocess.run([*UNSHARE, "sh", "-c", ENTER, root, "/usr/bin/env", "-i",
                           *(f"{name}={value}" for name, value in words.items()),
                           "sh", "-c", f'cd {TREE} && exec "$@"', "sh", *command],
                          stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                          timeout=BACKSTOP_SECONDS, check=False).returncode


def verdict(command, status, text):
    """What a command's end says; raises where it is not good."""
    tail = "\n".join([line for line in text.splitlines() if " FAILED" in line][:20] or
                     text.splitlines()[-5:])
    assert status == 0, f"make {command}: exit status {status}: {tail}"
    if command == "run":
        return "make run: status 0"
    sums = SUM.findall(text)
    assert sums, f"make {command}: no sum of tests: {tail}"
    count = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", sums[-1])}
    bad = count.get("failed", 0) + count.get("error", 0) + count.get("errors", 0)
    assert count.get("passed", 0) > 0 and bad == 0, f"make {command}: {sums[-1]}: {tail}"
    return f"make check: {count['passed']} passed, {bad} failed, {count.get('skipped', 0)} skipped"


def mounted_below(root):
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        return [line.split()[4] for line in mounts if line.split()[4].startswith(root + "/")]


@pytest.mark.full
@pytest.mark.parametrize("release", RELEASES, ids=[f"debian_{name}" for name in RELEASES])
def test_distribution(release):
    if os.geteuid() != 0:
        raise Skip("debootstrap and chroot want root; as root run: "
                   "FULL=1 make e2e T=distribution/")
    assert shutil.which("debootstrap"), "debootstrap is missing; run: testbed/deps.sh full"
    logs = path("build", "distribution")
    os.makedirs(logs, exist_ok=True)
    said = []
    with tempfile.TemporaryDirectory(prefix=f"debian-{release}.", dir=logs) as root:
        with open(os.path.join(logs, f"{release}-debootstrap.log"), "w", encoding="utf-8") as log:
            new_root(root, RELEASES[release], log)
        for command in COMMANDS:
            name = os.path.join(logs, f"{release}-{command}.log")
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
            ("run", 2, "PMUvisor refuses to start"), ("check", 2, good), ("check", 0, "built\n"),
            ("check", 0, "=== 1 failed, 7 passed in 2.50s (0:00:02) ===\n"),
            ("check", 0, "=== 7 passed, 1 error in 2.50s ===\n"),
            ("check", 0, "=== 9 skipped in 2.50s ===\n")):
        with pytest.raises(AssertionError):
            verdict(command, status, text)
