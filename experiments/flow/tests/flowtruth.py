# SPDX-License-Identifier: BSD-2-Clause
# flowtruth.py: one run under two traces, PMUvisor's of the exits and the guest kernel's own of its
# scheduler, as guest/truth/ hands them over.
from experiments.flow.analysis.trace_source import load
from experiments.shared.tests import handed_over


def boot(lab, cpus):
    """The run on so many processors. Gives the paths of its rings ("ring"), of the scheduler's
    trace ("sched"), of its table of thread groups ("tgid"), of the processes ("processes") and of
    the emulator's own list ("log")."""
    done, files = handed_over.boot(
        lab,
        f"flowtruth-{cpus}",
        "flowtruth",
        cpus=cpus,
        append="nmi_watchdog=0",
        config="console=none trace=flow trace_ring=4 user_hypercalls=1",
        knobs="flow_log log\n",
    )
    return {**files, "log": done.path("log")}


def rings(file):
    """The records of the rings of a file, which nobody writes any more. Nothing may be lost: the
    rings are larger than the run."""
    source = load(file)
    assert source.lost() == 0 and not source.complaints, f"{source.lost()} {source.complaints}"
    return source
