# SPDX-License-Identifier: BSD-2-Clause
# test_analyses.py: the answers to small traces, and the report of analyse.py.
import json
import subprocess
import sys

from experiments.flow.analysis import analyse, analyses
from experiments.flow.analysis.exit_reasons import NUMBERS
from experiments.flow.analysis.hand_made import (
    C_STACK,
    TIMER,
    WAKE,
    A,
    B,
    cpuid,
    flow,
    kernel_tick,
    record,
    source,
    trace,
)
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW

TRACE = (
    "0 load A B; 500 tick A; 600 load B A; 1500 tick B; 1600 load A B; 1700 cpuid A; 2000 halt A; "
    "3000 wake A sent; 3100 load B idle; 3500 halt B; 4000 wake B; 4100 halt B; 5000 wake B; "
    "5120 load A idle; 6000 cpuid A"
)


def test_processors():
    times = analyses.processors(flow(TRACE))[0]
    assert times["root"] == 10 * len(trace(TRACE))
    # Thrice HLT to interrupt, and after each up to the load or HLT.
    assert times["idle"] == (990 + 490 + 890) + (90 + 90 + 110)
    assert sum(times.values()) == 6010


def test_preemptions():
    def rows(text):
        return {
            (row.process, row.by): (row.count, row.time, row.longest)
            for row in analyses.preemptions(flow(text))
        }

    before = "; ".join(TRACE.split("; ")[:6])
    both = rows(before + "; 3100 load B A; 3200 cpuid B")
    assert both == {(A, B): (1, 1000, 1000), (B, A): (1, 1500, 1500)}
    assert rows(TRACE) == {(A, B): (1, 1000, 1000)}  # it halts before B comes back


def test_wake_ups():
    rows = {(row.process, row.vector): row.latencies for row in analyses.wake_ups(flow(TRACE))}
    assert rows == {(B, WAKE): [110], (A, TIMER): [130], (None, TIMER): [110]}


def test_exits():
    slow = record(300, NUMBERS["EPT_VIOLATION"], A, root_time=100)
    line = flow([*trace("0 cpuid A; 100 cpuid A; 200 cpuid A"), slow, cpuid(990, A)])
    rows = {row.reason: row for row in analyses.exits(line)}
    cpuids, violations = rows["CPUID"], rows["EPT_VIOLATION"]
    assert (cpuids.count, cpuids.time, cpuids.longest, cpuids.per_second) == (4, 40, 10, 4e6)
    assert (violations.time, violations.share) == (100, 10.0)


def test_threads_are_own_kernel_stacks():
    line = flow(
        [
            *trace("0 load A B; 100 kernel A A"),
            kernel_tick(200, A, C_STACK + 1),
            kernel_tick(300, A, C_STACK + 2),
            *trace("400 kernel A worker; 500 load B worker; 600 load A worker; 700 cpuid A"),
        ]
    )
    row = next(row for row in analyses.processes(line) if row.key == A)
    assert row.threads == 2 and sorted(row.stacks.values()) == [1, 2]


def test_processes_have_all_states():
    row = analyses.processes(flow(TRACE))[0]
    assert (row.key, row.times["preempted"], row.on) == (A, 1000, [0])


def report(records, limit=None, level=TRACE_FLOW):
    return "\n".join(analyse.report(*analyse.analyse(source(level, records)), limit))


def test_report():
    text = report(TRACE)
    for words in (
        "lost records: 0",
        f"cr3 {A:#x}",
        "Preemption",
        "0xfb",
        "CR_ACCESS",
        "each change of process has its record",
    ):
        assert words in text
    assert "Levels" not in text
    _, found = analyse.analyse(source(TRACE_FLOW, TRACE))
    json.dumps({name: analyse.plain(rows) for name, rows in found.items()})
    assert "more (--all)" in report(TRACE, 1)
    assert "0 records" in report([], level=TRACE_EXITS)


def test_bad_input_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", "-m", analyse.__name__, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("analyse.py: "), done.stderr
