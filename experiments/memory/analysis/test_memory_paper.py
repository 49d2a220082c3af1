# SPDX-License-Identifier: BSD-2-Clause
# test_memory_paper.py: the arithmetic on the paper's figures, by hand-made ones whose answers are
# plain, and by what the paper itself prints.
import unittest

from experiments.memory.analysis import memory_paper
from experiments.memory.analysis.schmidt_published import SCHMIDT

# An instruction takes 1 s, a traced write 100 s more, the translator 11 s for each instruction.
PLAIN = {
    **SCHMIDT,
    "rounds": 1,
    "table_5_2": {**SCHMIDT["table_5_2"], "t": 1, "u": 1, "native": 10, "KVM": 110, "QSimu": 110},
}


class Paper(unittest.TestCase):
    def test_share(self):
        """The percentages that the paper names."""
        self.assertAlmostEqual(memory_paper.share(48, 100), 0.095, places=3)
        self.assertAlmostEqual(memory_paper.share(45, 10000), 0.0009, places=5)

    def test_table(self):
        table = memory_paper.table_5_2(PLAIN)
        self.assertEqual((table.native, table.kvm_write, table.qsimu), (1, 100, 11))
        self.assertEqual(memory_paper.break_even(1, 11, 100), 0.1)

    def test_break_even_is_one(self):
        """There both take the same."""
        table = memory_paper.table_5_2()
        there = memory_paper.break_even(table.native, table.qsimu, table.kvm_write)
        self.assertAlmostEqual(table.native + there * table.kvm_write, table.qsimu)
        by_formula, write = memory_paper.formula_break_even(), 1094 + 2424
        self.assertAlmostEqual(
            by_formula * write + (1 - by_formula) * SCHMIDT["cpi"], SCHMIDT["cpi_qsimu"]
        )

    def test_formulas_of_the_paper(self):
        """What it calculates comes out of what it says it calculates from."""
        write = 2 * (SCHMIDT["exit"] + SCHMIDT["entry"] + SCHMIDT["outside"])
        self.assertAlmostEqual(
            SCHMIDT["share"] * write + (1 - SCHMIDT["share"]) * SCHMIDT["cpi"], SCHMIDT["cpi_kvm"]
        )
        self.assertAlmostEqual(SCHMIDT["cpi"] * SCHMIDT["text_slowdown"], SCHMIDT["cpi_qsimu"])

    def test_findings(self):
        text = "\n".join(" -> ".join(pair) for pair in memory_paper.findings())
        for figure in ("4,550 cycles", "0.23 %", "0.25 %", "2.9 %", "1584", "122", "0.27 cycles"):
            self.assertIn(figure, text)
