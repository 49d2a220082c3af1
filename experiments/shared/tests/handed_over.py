# SPDX-License-Identifier: BSD-2-Clause
# handed_over.py: boots in which a job hands files over to the emulator (testbed/README.md, "Files
# from the guest").
import os

from testbed import boots
from testbed.machine import STATUS_POWEROFF

FOLDER = "guest"
TSC_HZ = 50_000_000  # what the emulator's clock runs at


def boot(lab, name, job, append, config, cpus=1, status=0, knobs=""):
    """One boot with the job, of the image of that name, which has to end with that status. `knobs`:
    lines of more knobs. Gives it and {name: path} of the files that it handed over."""
    done = lab.emulator(
        name,
        jobs=job,
        cpus=cpus,
        append=append,
        config=config,
        initrd=boots.initrd(name=job),
        knobs=f"tsc_hz {TSC_HZ}\nguest_files {FOLDER}\n{knobs}",
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status(job) == status, done.last_line()
    folder = done.path(FOLDER)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return done, {name: os.path.join(folder, name) for name in names}
