# SPDX-License-Identifier: BSD-2-Clause
# initramfs.py: an initramfs with more in it. Linux unpacks archives that lie one after the other
# (Linux, Documentation/driver-api/early-userspace/buffer-format.rst), so that nothing has to be
# unpacked and packed again.
import os
import shutil
import subprocess
import tempfile

from testbed.machine import BACKSTOP_SECONDS, SCRATCH

EPOCH = 1704067200  # the files' time: the same files make the same archive


def of_files(files):
    """Gives a cpio archive, as bytes, of {path in the guest: file, or bytes}; everything is root's.
    A file keeps its mode; bytes are a program."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-initramfs.", dir=SCRATCH) as root:
        for inside, source in files.items():
            name = os.path.join(root, inside)
            os.makedirs(os.path.dirname(name), exist_ok=True)
            if isinstance(source, bytes):
                with open(name, "wb") as out:
                    out.write(source)
                os.chmod(name, 0o755)
            else:
                shutil.copy(source, name)
        names = sorted(
            os.path.relpath(os.path.join(folder, name), root)
            for folder, folders, inside in os.walk(root)
            for name in folders + inside
        )
        for name in names:
            os.utime(os.path.join(root, name), (EPOCH, EPOCH))
        return subprocess.run(
            ["cpio", "--quiet", "--create", "--format=newc", "--owner=+0:+0", "--reproducible"],
            input="\n".join(names).encode(),
            stdout=subprocess.PIPE,
            cwd=root,
            check=True,
            timeout=BACKSTOP_SECONDS,
        ).stdout


def jobs(programs):
    """These programs as jobs (programs/payload/init.c), by their names."""
    return {f"jobs/{os.path.basename(program)}": program for program in programs}
