# SPDX-License-Identifier: BSD-2-Clause
# memdemo.py: boots in which guest/ traces a small program, and what it handed over.
from experiments.shared.tests import handed_over


def boot(
    lab,
    name,
    asked="--writes",
    option="memtrace=writes trace_ring=16",
    cpus=1,
    status=0,
    program="matrix",
):
    """The run; gives it and the path of the trace, None where there is none. `asked`: memtrace's
    words with commas between them. `program`: what it traces."""
    done, files = handed_over.boot(
        lab,
        name,
        "memdemo",
        cpus=cpus,
        status=status,
        append=f"nmi_watchdog=0 pmv.memtrace={asked} pmv.program={program}",
        config=f"console=none {option} user_hypercalls=1",
    )
    return done, files.get("ptrace")
