# SPDX-License-Identifier: BSD-2-Clause
# test_memory_costs.py: the tables of what a traced write costs, from hand-made ledgers whose
# answers are plain: 100 root instructions and 10 VMCS accesses a write.
import json
import os
import subprocess
import sys
import tempfile
import unittest

from experiments.memory.analysis import memory_cost, memory_paper

INSTRUCTIONS, READS, WRITES = 100, 6, 4
TRACED = ("writes", "fill-traced")
TRANSLATE = {
    "qemu": "QEMU",
    "processor": "none",
    "repeat": 1,
    "host": {mode: {"instruction": 8, "write": 16} for mode in ("tcg", "tcg hook", "tcg record")},
    "loops": [
        {
            "mode": mode,
            "t": t,
            "u": 100,
            "rounds": 1,
            "writes": t,
            "instructions": 505,
            "ticks": ticks,
        }
        for mode, ticks in (("native", 505), ("tcg hook", 5050))
        for t in (0, 48)
    ],
}


def ledger():
    regions = {}
    for n, (word, t, u, rounds) in enumerate(memory_cost.JOBS):
        writes = t * rounds if word in TRACED else 0
        regions[str(memory_cost.REGION + n)] = {
            "exits": {"37": {"count": writes}, "48": {"count": writes}},
            "root": {
                "instructions": writes * INSTRUCTIONS,
                "vmread": writes * READS,
                "vmwrite": writes * WRITES,
                "rdmsr": 0,
                "wrmsr": 0,
                "cpuid": 0,
                "listed": 0,
            },
            "nonroot": {"instructions": memory_paper.instructions(u, rounds)},
        }
    return {"regions": regions}


class Costs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.leave(f"{memory_cost.PREFIX}ours.json", ledger())

    def leave(self, name, content):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as out:
            json.dump(content, out)

    def jobs(self):
        return memory_cost.read(self.folder, "ours")

    def test_write(self):
        costs = memory_cost.write_costs(self.jobs())
        self.assertEqual(
            (costs["exits"], costs["instructions"], memory_cost.vmcs(costs)),
            (2, INSTRUCTIONS, READS + WRITES),
        )
        mean, low, high = memory_cost.cycles(costs)
        # Two transitions of 516 to 636 cycles, ten accesses of 50, the rest at half a cycle or so.
        self.assertTrue(2 * 516 + 500 < low < mean < high < 2 * 636 + 500 + INSTRUCTIONS)

    def test_curve(self):
        """48 of 505 instructions write, and each brings 100 more."""
        self.assertAlmostEqual(
            memory_cost.slowdown(self.jobs(), memory_cost.WRITES), 1 + 48 / 505 * INSTRUCTIONS
        )
        self.assertEqual(memory_cost.slowdown(self.jobs(), memory_cost.STEP), 1)

    def test_published(self):
        """Through the paper's own table."""
        kvm, qsimu = memory_cost.published(48 / 505)
        self.assertAlmostEqual(kvm, 9501 / 6)
        self.assertAlmostEqual(qsimu, 39)

    def test_jobs(self):
        """A region for each, and T counts from 1."""
        words = memory_cost.words()
        self.assertEqual(
            words[memory_cost.STEP], f"memory-cost:writes:1:10000:10:{memory_cost.STEP}"
        )
        self.assertEqual(len(set(word.rsplit(":", 1)[1] for word in words)), len(words))

    def output(self):
        return subprocess.run(
            [sys.executable, "-m", memory_cost.__name__, self.folder],
            text=True,
            capture_output=True,
            check=False,
        )

    def test_output(self):
        self.assertNotIn("QEMU", self.output().stdout.split("\n\n")[0])
        self.leave(memory_cost.TRANSLATE, TRANSLATE)
        said = self.output().stdout
        for text in ("memtrace=writes: a store", "(10.0 times)", "tcg hook: 10.00 TSC ticks"):
            self.assertIn(text, said)

    def test_nothing(self):
        os.remove(os.path.join(self.folder, f"{memory_cost.PREFIX}ours.json"))
        done = self.output()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("make e2e T=memory_cost/", done.stderr)
