# SPDX-License-Identifier: BSD-2-Clause
# distribution.py: runs commands on a Debian that debootstrap has just made, in a clone of this
# tree's HEAD. Of this machine they see its processors, its kernel and $DISTFILES; packages, the
# guest's kernels and, without $DISTFILES, the emulator's source come from the mirror that apt is
# configured with here.
# Usage, as root:
#   python3 -m tests.e2e.distribution RELEASE COMMAND ...
# RELEASE: 12 or 13; its exit status is the command's
#
# What is mounted is so in a mount namespace that ends with the last process of the run, and nothing
# of the machine's own is bound there: whatever ends the run, it leaves a plain folder.
import os
import shutil
import signal
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from testbed.machine import BACKSTOP_SECONDS, path

LOGS = path("build", "distribution")
RELEASES = {"12": "bookworm", "13": "trixie"}
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
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "COLUMNS")


def mirror():
    """Where apt gets Debian from here; none: debootstrap's own."""
    done = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
            "Origin: Debian",
            "Component: main",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return [uri for uri in done.stdout.split() if uri.rstrip("/").endswith("/debian")][:1]


def new_root(root, suite, log):
    os.chmod(root, 0o755)  # apt fetches as a user of its own
    source = mirror()
    packages = PACKAGES + (",ca-certificates" if "".join(source).startswith("https:") else "")
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", suite, root, *source],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        check=True,
        timeout=BACKSTOP_SECONDS,
    )
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", TOP, root + TREE],
        check=True,
        stdout=log,
        stderr=log,
    )
    if os.environ.get("DISTFILES"):
        shutil.copytree(os.environ["DISTFILES"], root + DISTFILES)


def inside(root, log, *command):
    """Runs a command in the tree; gives its status."""
    words = {
        "HOME": "/root",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "DISTFILES": DISTFILES,
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }
    return subprocess.run(
        [
            *UNSHARE,
            "sh",
            "-c",
            ENTER,
            root,
            "/usr/bin/env",
            "-i",
            *(f"{name}={value}" for name, value in words.items()),
            "sh",
            "-c",
            f'cd {TREE} && exec "$@"',
            "sh",
            *command,
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        timeout=BACKSTOP_SECONDS,
        check=False,
    ).returncode


def mounted_below(root):
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        return [line.split()[4] for line in mounts if line.split()[4].startswith(root + "/")]


def folder(release):
    """A new folder for a root; at the end of the context it is gone."""
    os.makedirs(LOGS, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=f"debian-{release}.", dir=LOGS)


def main():
    release, *command = sys.argv[1:] or [""]
    if release not in RELEASES or not command:
        return f"usage: python3 -m tests.e2e.distribution {'|'.join(RELEASES)} COMMAND ..."
    if os.geteuid() != 0:
        return "distribution.py: debootstrap and chroot want root; run it as root"
    # So that the folder goes then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if (
        not shutil.which("debootstrap")
        and subprocess.run([path("testbed", "deps.sh"), "full"], check=False).returncode
    ):
        return "distribution.py: debootstrap is missing and could not be installed; see above"
    with folder(release) as root:
        name = os.path.join(LOGS, f"{release}-debootstrap.log")
        try:
            with open(name, "w", encoding="utf-8") as log:
                new_root(root, RELEASES[release], log)
        except (subprocess.SubprocessError, OSError) as trouble:
            return f"distribution.py: no Debian {release}: {trouble}; see {name}"
        return inside(root, None, *command)


if __name__ == "__main__":
    sys.exit(main())
