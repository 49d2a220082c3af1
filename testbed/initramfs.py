# SPDX-License-Identifier: BSD-2-Clause
# initramfs.py: an initramfs with more in it. Linux unpacks archives that lie one after the other
# (Linux, Documentation/driver-api/early-userspace/buffer-format.rst), so that nothing has to be
# unpacked and packed again.
import os
import shutil
import subprocess
import tempfile

from machine import BACKSTOP_SECONDS


def archive(root):
    """Gives a cpio archive, as bytes, of all that is below the folder; everything is root's."""
    names = [os.path.relpath(os.path.join(folder, name), root)
             for folder, folders, files in os.walk(root) for name in sorted(folders + files)]
    return subprocess.run(["cpio", "--quiet", "--create", "--format=newc", "--owner=+0:+0"],
                          input="\n".join(names).encode(), stdout=subprocess.PIPE, cwd=root,
                          check=True, timeout=BACKSTOP_SECONDS).stdout


def with_folder(small, root, out):
    """Writes to the path `out` the initramfs `small`, and after it all that is below the folder
    `root`. Gives `out`, which is whole at any time: two boots may be made at once."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(out), delete=False) as file, \
            open(small, "rb") as first:
        shutil.copyfileobj(first, file)
        file.write(archive(root))
    os.replace(file.name, out)
    return out


def with_jobs(small, programs, out):
    """The same with these programs as jobs (programs/payload/init.c), by their names."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-initramfs.") as root:
        jobs = os.path.join(root, "jobs")
        os.mkdir(jobs)
        for program in programs:
            shutil.copy(program, jobs)
        return with_folder(small, root, out)
