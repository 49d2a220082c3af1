# SPDX-License-Identifier: BSD-2-Clause
# test_peers.py: msr+nmi against the mediated vPMU: a ratio and a reason in each row, and no reason
# against its figure.
import unittest

from bench import tables, test_report
from experiments.peers.analysis import peer_table


def machine(**more):
    maker = test_report.emulator()
    for name, cost in (("native", 100), ("msr+nmi", 100), ("kvm-mediated", more.get("cost", 900))):
        maker.add(name, "context_switch", "counted", "instructions", cost, "instructions")
    return maker.machine()


class Peers(unittest.TestCase):
    def row(self, table, label):
        return next(row for row in table.rows if row.label == label)

    def test_each_row_has_a_ratio_and_a_reason(self):
        table = tables.make(machine(), "peer")
        for row in table.rows:
            if row.cells[0].kind != "missing":
                self.assertNotEqual(row.cells[2].note, 0, row.label)
        switch = self.row(table, "context switch, 4 counters: added")
        self.assertEqual([cell.text for cell in switch.cells], ["100", "900", "0.11x", "-"])
        self.assertEqual(self.row(table, "exits per PMI (Linux)").cells[1].text, "7")
        self.assertEqual(self.row(table, "RDMSR A_PMC").cells[2].text, "1x")

    def reason(self, table, label):
        return table.notes[self.row(table, label).cells[2].note - 1]

    def test_a_reason_never_contradicts_its_figure(self):
        for cost, reason in ((900, peer_table.SWITCH), (90, peer_table.AHEAD)):
            table = tables.make(machine(cost=cost), "peer")
            self.assertEqual(self.reason(table, "context switch, 4 counters: added"), reason)
        self.assertEqual(self.reason(table, "RDMSR A_PMC"), peer_table.COUNTER)
        trapped = test_report.emulator()
        for entry in trapped.made["measurements"]:
            if (entry["column"], entry["item"]) == ("kvm-mediated", "rdmsr_pmc"):
                entry["value"] = {"exits": 1, "instructions": 999}.get(entry["metric"], 0)
        table = tables.make(trapped.machine(), "peer")
        self.assertEqual(self.reason(table, "RDMSR A_PMC"), peer_table.EXITS_THERE)
        passed = test_report.emulator()
        for entry in passed.made["measurements"]:
            if (entry["column"], entry["item"]) == ("kvm-mediated", "wrmsr_evtsel"):
                entry["value"] = {"instructions": 1}.get(entry["metric"], 0)
        table = tables.make(passed.machine(), "peer")
        self.assertEqual(self.reason(table, "WRMSR EVTSEL"), peer_table.COUNTER)

    def test_what_lacks_says_why(self):
        table = tables.make(machine(), "peer")
        row = self.row(table, "nginx, per request")
        self.assertEqual(row.cells[0].kind, "missing")
        self.assertEqual(
            table.notes[row.cells[0].note - 1], "these results have no experiment nginx"
        )

    def test_nginx_is_judged_by_its_runs(self):
        for least, most, runs, requests, reason in (
            (90, 110, 5, 80000, peer_table.SAME),  # a median within the other's range
            (99, 101, 5, 80000, peer_table.AHEAD),
            (99, 101, 5, 800, peer_table.SAME),  # a batch is a tenth of a run
            (99, 101, 4, 80000, peer_table.FEW),
        ):
            maker = test_report.emulator()
            for name, value in (("msr+nmi", 105), ("kvm-mediated", 100)):
                maker.region(name, "nginx", "plain", 0, value)
                maker.add(name, "nginx", "plain", "requests", requests, "count")
            for entry in maker.made["measurements"]:
                if entry["experiment"] == "nginx" and entry["metric"] == "instructions":
                    ours = entry["column"] == "msr+nmi"
                    entry.update(
                        n=runs,
                        **({"min": 104, "p95": 106} if ours else {"min": least, "p95": most}),
                    )
            table = tables.make(maker.machine(), "peer")
            self.assertEqual(self.reason(table, "nginx, per request"), reason)


if __name__ == "__main__":
    unittest.main()
