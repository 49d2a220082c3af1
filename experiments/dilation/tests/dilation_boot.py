# SPDX-License-Identifier: BSD-2-Clause
# dilation_boot.py: the job `dilation` under one way of time and one way of stepping, and what was counted.
import boots
import dilation
from machine import STATUS_POWEROFF

TSC_HZ = 2_000_000_000  # what Linux takes a tick of the emulator's clock for: one instruction a cycle


def boot(lab, time, step, rounds, mutant=""):
    """The run; `time`: the knob root_time's value. Gives its counts, as dilation.read() has them."""
    name = f"dilation-{time.replace(' ', '-')}-{step}-{rounds}{mutant}"
    done = lab.emulator(
        name, jobs="dilation", initrd=boots.initrd(name="dilation"),
        append=f"nmi_watchdog=0 tsc=reliable pmv.dilation.rounds={rounds}",
        config=f"console=none memtrace=writes memtrace_step={step} user_hypercalls=1",
        knobs=f"tsc_hz {TSC_HZ}\nroot_time {time}\nrun_counts counts\n")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("dilation") == 0, done.last_line()
    with open(done.path("counts"), encoding="ascii") as source:
        return dilation.read(done.lines("dilation"), source.readlines(), done.region)
