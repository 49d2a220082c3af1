# SPDX-License-Identifier: BSD-2-Clause
# test_auto_experiments.py: jobs that bare machines alone have (tables with `metal = true`): each
# runs to its end from power-on, natively and under msr+nmi, and every item of theirs has a result.
import re

import pytest

from bench import tables
from bench.measurements import ALL
from metal.tests.auto_disk import run_once
from testbed.machine import STATUS_POWEROFF

COLUMNS = ("native", "msr+nmi")
METAL = {key for key, what in tables.ENTRIES["table"].items() if what.get("metal")}
# Of these every item is in such tables.
JOBS = [
    name
    for name in ALL.experiments
    if ALL.items(name) and all(METAL.intersection(item.tables) for item in ALL.items(name))
]
# A processor with PEBS, where a second has few instructions.
KNOBS = "pebs 3\ntsc_hz 100000000\n"
# Of 20,000 inputs of each target, which take minutes on a machine.
SHORT = "pmv.branchfuzz=1000"


@pytest.mark.full
def test_jobs_of_bare_machines(lab):
    """Every item of every such job has a line of results in both columns; no job fails."""
    assert len(JOBS) >= 4, JOBS
    words = f"pmv.jobs={','.join(JOBS)} pmv.runs=1 {SHORT}"
    status, kept, console = run_once(lab, "experiments", " ".join(COLUMNS), words, KNOBS)
    assert (
        status == STATUS_POWEROFF
    ), f"exit status {status}, last line: {console.strip().splitlines()[-1:]}"
    failed = re.findall(r"auto: start=\S+ job=\S+ status=[1-9]\d*.*|.*item=all skip=.*", console)
    assert not failed, failed
    for column in COLUMNS:
        found = set(
            re.findall(
                r"^bench: experiment=(\S+) item=(\S+) .*(?:value|median)=",
                kept[f"bench/1.{column}.txt"].decode(),
                re.MULTILINE,
            )
        )
        missing = [
            (item.experiment, item.name)
            for job in JOBS
            for item in ALL.items(job)
            if (job, item.name) not in found
        ]
        assert not missing, f"{column}: no result of {missing}"
    return f"{', '.join(JOBS)}: {len(found)} items in each column"
