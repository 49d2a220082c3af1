# SPDX-License-Identifier: BSD-2-Clause
# flowdemo.py: boots in which guest/ records a load, and what it handed over.
from experiments.shared.tests import handed_over


def boot(lab, name, level="flow", option=None, cpus=1, words="", status=0):
    """The run; gives it and the paths of the trace file and of the names."""
    return handed_over.boot(
        lab,
        name,
        "flowdemo",
        cpus=cpus,
        status=status,
        append=f"nmi_watchdog=0 pmv.level={level} {words}",
        config=f"console=none trace={option or level} user_hypercalls=1",
    )
