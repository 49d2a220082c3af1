# SPDX-License-Identifier: BSD-2-Clause
# test_memory_costs.py: the tables of what a traced write costs, from hand-made ledgers whose
# answers are plain: 100 root instructions and 10 VMCS accesses a write.
import json
import os
import re
import subprocess
import sys

import pytest

from experiments.memory.analysis import memory_cost, memory_paper

INSTRUCTIONS, READS, WRITES = 100, 6, 4
INTERVAL = re.compile(r"[\d.,]+(?: %)? \([\d.,]+ to [\d.,]+(?: %)?\)")
TRACED = ("writes", "fill-traced")
TRANSLATE = {
    "qemu": "QEMU",
    "processor": "none",
    "repeat": 1,
    "host": {mode: {"instruction": 8, "write": 16} for mode in ("tcg", "tcg hook", "tcg record")},
    "loops": [
        {"mode": mode, "t": t, "u": 100, "instructions": 505, "ticks": ticks}
        for mode, ticks in (("native", 505), ("tcg hook", 5050))
        for t in (0, 48)
    ],
}


def near(value):
    return pytest.approx(value, rel=0, abs=5e-8)


def ledger():
    regions = {}
    for n, (word, t, u, rounds) in enumerate(memory_cost.JOBS):
        writes = t * rounds if word in TRACED else 0
        root = dict.fromkeys(("rdmsr", "wrmsr", "cpuid", "listed"), 0)
        root |= {"instructions": writes * INSTRUCTIONS}
        root |= {"vmread": writes * READS, "vmwrite": writes * WRITES}
        regions[str(memory_cost.REGION + n)] = {
            "exits": {"37": {"count": writes}, "48": {"count": writes}},
            "root": root,
            "nonroot": {"instructions": memory_paper.instructions(u, rounds)},
        }
    return {"regions": regions}


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    """A folder as a boot has left it."""
    (tmp_path / f"{memory_cost.PREFIX}ours.json").write_text(json.dumps(ledger()))
    return tmp_path


def jobs_of(folder):
    return memory_cost.read(folder, "ours")


def test_write(folder):
    costs = memory_cost.write_costs(jobs_of(folder))
    found = (costs["exits"], costs["instructions"], memory_cost.vmcs(costs))
    assert found == (2, INSTRUCTIONS, READS + WRITES)
    middle, low, high = memory_cost.cycles(costs)
    # The middle has two exits of 540 cycles, six VMREADs of 20, four VMWRITEs of 40, and more.
    assert 2 * 540 + 6 * 20 + 4 * 40 < middle < 2 * (540 + 2 * 540) and low < middle < high


def test_no_estimate_without_its_interval(folder):
    """In each table of the report; a store that is not traced costs nothing."""
    boots = {"ours": jobs_of(folder)}
    written, curve = memory_cost.cost_table(boots, None), memory_cost.curve_table(boots, None)
    for row in written.rows[:-1]:
        text, nothing = row.cells[-1].text, row.label.endswith("to another page")
        assert text == "0" if nothing else INTERVAL.fullmatch(text), row
    for row in curve.rows[1:]:
        assert INTERVAL.fullmatch(row.cells[1].text), row


def test_break_even(folder):
    """Where the estimate is higher, the share is lower: at each end it takes as long as QSimu."""
    jobs = jobs_of(folder)
    cycles, table = memory_cost.cycles(memory_cost.write_costs(jobs)), memory_paper.table_5_2()
    ((_, share),) = memory_cost.break_evens({"ours": jobs})
    for one, each in (
        (share.low, cycles.high),
        (share.high, cycles.low),
        (share.middle, cycles.middle),
    ):
        write = one / 100 * each / memory_cost.SCHMIDT["hertz"]
        assert table.native + write == pytest.approx(table.qsimu)


def test_curve(folder):
    """48 of 505 instructions write, and each brings 100 more."""
    slowdown = memory_cost.slowdown(jobs_of(folder), memory_cost.WRITES)
    assert slowdown == near(1 + 48 / 505 * INSTRUCTIONS)
    assert memory_cost.slowdown(jobs_of(folder), memory_cost.STEP) == 1


def test_published():
    """Through the paper's own table."""
    assert memory_cost.published(48 / 505) == near((9501 / 6, 39))


def test_jobs():
    """A region for each, and T counts from 1."""
    words = memory_cost.words()
    assert words[memory_cost.STEP] == f"memory-cost:writes:1:10000:10:{memory_cost.STEP}"
    assert len({word.rsplit(":", 1)[1] for word in words}) == len(words)


def output(folder):
    return subprocess.run(
        [sys.executable, "-m", memory_cost.__name__, folder],
        text=True,
        capture_output=True,
        check=False,
    )


def test_output(folder):
    assert "QEMU" not in output(folder).stdout.split("\n\n")[0]
    (folder / memory_cost.TRANSLATE).write_text(json.dumps(TRANSLATE))
    said = output(folder).stdout
    for text in ("memtrace=writes: a store", "(10.0 times)", "tcg hook: 10.00 TSC ticks"):
        assert text in said


def test_nothing(folder):
    os.remove(folder / f"{memory_cost.PREFIX}ours.json")
    done = output(folder)
    assert done.returncode != 0 and "make e2e T=memory_cost/" in done.stderr
