# SPDX-License-Identifier: BSD-2-Clause
# dilation_boot.py: the job `dilation` under each way of time and of stepping, and what was counted.
from bench import estimate
from experiments.dilation.analysis import dilation
from testbed import boots
from testbed.machine import STATUS_POWEROFF

TSC_HZ = (
    2_000_000_000  # what Linux takes a tick of the emulator's clock for: one instruction a cycle
)
# Of 10,000 instructions. What Linux does meanwhile by REP strings has more ticks than instructions.
ROUNDS, ROUNDS_QUICK = 2000, 1600


def boot(lab, time, step, rounds):
    """The run; `time`: the knob root_time's value. Gives its counts, as dilation.read() has
    them."""
    done = lab.emulator(
        f"dilation-{time.replace(' ', '-')}-{step}-{rounds}",
        jobs="dilation",
        initrd=boots.initrd(name="dilation"),
        append=f"nmi_watchdog=0 tsc=reliable pmv.dilation.rounds={rounds}",
        config=f"console=none memtrace=writes memtrace_step={step} user_hypercalls=1",
        knobs=f"tsc_hz {TSC_HZ}\nroot_time {time}\nrun_counts counts\n",
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("dilation") == 0, done.last_line()
    with open(done.path("counts"), encoding="ascii") as source:
        return dilation.read(done.lines("dilation"), source.readlines(), done.region)


def price(pairs):
    """Ticks that an exit lacks in the emulator, by the estimate of bench/estimate.py."""
    return dilation.price(dilation.priced_pair(pairs), lambda costs: estimate.of_root(costs).middle)


def answer(lab, rounds=ROUNDS):
    """{name of a way: {"time", "step", "pairs"}}, as dilation.WAYS names them."""
    counted = {step: boot(lab, "kept 0", step, rounds) for step in ("blocked", "exits")}
    hidden = estimate.COSTS["exit"]["median"]  # what no RDTSC of root mode sees
    found = {}
    for name, (way, priced, step) in dilation.WAYS.items():
        ticks = 0 if not priced else price(counted[step]) if way == "kept" else hidden
        time = f"{way} {ticks}"
        found[name] = {"time": time, "step": step, "pairs": boot(lab, time, step, rounds)}
    return found
