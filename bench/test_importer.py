# SPDX-License-Identifier: BSD-2-Clause
# test_importer.py: files of a bare machine and console logs with markers, whole and broken ones.
import json
import os
import tempfile
import unittest

from bench import importer, summary, tables
from bench.cells import Machine
from bench.results import Trouble
from bench.test_report import row_of

ENV = 'env: kind="metal"\nenv: cpu="Xeon"\nenv: turbo="off"\n'
LINES = (
    "bench: experiment=msr item=empty region=2001 ops=10 metric=time unit=tsc n=30 min=20 "
    "median=20 p95=30\n"
    "bench: experiment=msr item=rdpmc base=empty region=2002 ops=10 metric=time unit=tsc "
    "n=30 min=220 median=240 p95=260\n"
)


def file_of(column, status="status=0", env=ENV):
    return f'{env}env: column="{column}"\nsome noise\n{LINES}end: column={column} {status}\n'


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        full = os.path.join(self.folder.name, name)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)
        return full

    def run_on(self, *texts, ledgers=()):
        names = [self.write(f"{at}.txt", text) for at, text in enumerate(texts)]
        return importer.run(names, ledgers)

    def refused(self, *texts):
        with self.assertRaises(Trouble) as caught:
            self.run_on(*texts)
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_a_file_for_each_column(self):
        found, notes, status = self.run_on(file_of("native"), file_of("msr"))
        self.assertEqual((notes, status), ([], 0))
        self.assertEqual(found["environment"]["cpu"], "Xeon")
        self.assertEqual(
            [name for name, column in found["columns"].items() if column["status"] == "ok"],
            ["native", "msr"],
        )
        value = [entry["value"] for entry in found["measurements"] if entry["item"] == "rdpmc"]
        self.assertEqual(value, [22, 22])
        self.assertEqual({entry["unit"] for entry in found["measurements"]}, {"cycles"})

    def test_a_log_with_markers(self):
        sections = "".join(
            f"BENCH BEGIN column={name}\n{LINES}end: column={name} status=0\n"
            f"BENCH END column={name}\nnoise\n"
            for name in ("native", "msr+nmi")
        )
        found, notes, status = self.run_on(ENV + sections.replace("\n", "\r\n"))
        self.assertEqual((notes, status), ([], 0))
        self.assertEqual(found["columns"]["msr+nmi"]["status"], "ok")
        self.assertEqual(found["columns"]["kvm"]["status"], "not run")

    def test_a_log_that_was_cut(self):
        found, notes, status = self.run_on(ENV + "BENCH BEGIN column=native\n" + LINES)
        self.assertEqual((status, len(notes)), (1, 1))
        self.assertIn("the log ends", found["columns"]["native"]["why"])
        self.assertEqual(found["measurements"], [])

    def test_a_column_that_failed(self):
        found, notes, status = self.run_on(
            file_of("native"), file_of("msr", 'status=3 why="no VMX"')
        )
        self.assertEqual((status, len(notes)), (1, 1))
        self.assertEqual(found["columns"]["msr"]["why"], "no VMX")

    def test_why_is_of_the_file_that_says_it(self):
        found, _, _ = self.run_on(
            file_of("msr", 'status=3 why="no VMX"'),
            file_of("native"),
            file_of("intercept", 'status=1 why="refused"'),
        )
        why = {name: column["why"] for name, column in found["columns"].items()}
        self.assertEqual((why["msr"], why["intercept"], why["native"]), ("no VMX", "refused", ""))
        self.assertEqual(why["kvm"], importer.ABSENT)

    def test_a_column_that_failed_has_no_figures(self):
        found, notes, status = self.run_on(
            file_of("native"), file_of("msr", 'status=3 why="no VMX"')
        )
        self.assertEqual({entry["column"] for entry in found["measurements"]}, {"native"})
        no_end = file_of("msr").partition("end:")[0]
        found, notes, status = self.run_on(no_end)
        self.assertEqual(status, 1)
        self.assertIn("cut off", found["columns"]["msr"]["why"])

    def test_a_bad_line_is_said(self):
        found, notes, status = self.run_on(file_of("native").replace("rdpmc base", "rdpmc bass"))
        self.assertEqual((status, len(notes)), (1, 1))
        self.assertIn("unknown key 'bass'", notes[0])
        self.assertEqual(found["columns"]["native"]["status"], "ok")

    def test_files_that_are_none_of_ours(self):
        self.assertIn("column", self.refused("nothing here\n"))
        self.assertIn("kind", self.refused(file_of("native", env="")))
        self.assertIn("xen", self.refused(file_of("xen")))
        self.assertIn("tick=100", self.refused('env: tick="100"\n' + file_of("native")))
        self.assertIn("unknown key 'foo'", self.refused('env: foo="1"\n' + file_of("native")))
        self.assertIn("wanted env:", self.refused("env: kind=metal\n" + file_of("native")))
        self.assertIn(
            "end", self.refused(file_of("native").replace("end: column=native", "end: column=msr"))
        )
        self.assertIn(
            "cpu", self.refused(file_of("native"), file_of("msr", env=ENV.replace("Xeon", "Core")))
        )

    def test_version(self):
        env = ENV + 'env: version="v1"\nenv: compiler="cc 1"\n'
        found, _, status = self.run_on(file_of("native", env=env), file_of("msr", env=env))
        self.assertEqual((found["tool"]["version"], status), ("v1", 0))
        other = file_of("msr", env=env.replace("v1", "v2"))
        self.assertIn(
            'tool.version of column msr: found "v2"',
            self.refused(file_of("native", env=env), other),
        )
        begin = f"{env}BENCH BEGIN column=native\n{LINES}end: column=native status=0\n"
        found, _, _ = self.run_on(f"{begin}BENCH END column=native\n")
        self.assertEqual(found["tool"]["version"], "v1")

    def test_settings_that_differ_between_columns(self):
        env = 'env: governor="powersave"\nenv: frequency="3000 MHz"\n'
        found, notes, status = self.run_on(
            file_of("native", env=ENV + env),
            file_of("msr", env=ENV.replace("off", "on") + env.replace("powersave", "performance")),
        )
        self.assertEqual((status, len(notes)), (0, 2))
        self.assertEqual(found["environment"]["turbo"], "native: off; msr: on")
        self.assertEqual(
            found["environment"]["frequency"],
            "native: 3000 MHz, governor powersave; msr: 3000 MHz, governor performance",
        )

    def test_what_makes_columns_unlike_is_said(self):
        env = (
            ENV + 'env: microcode="0x2b000590"\nenv: bios="V 1.2 01/02/2024"\n'
            'env: processors="1"\nenv: apic="xAPIC"\n'
        )
        found, notes, _ = self.run_on(file_of("native", env=env), file_of("msr", env=env))
        self.assertEqual(notes, [])
        self.assertEqual(summary.unlike(Machine(found)), [])
        self.assertEqual(found["environment"]["microcode"], "0x2b000590")
        other = env.replace("590", "571")
        # As a job under KVM says it, after what the host has.
        kvm = env + 'env: apic="x2APIC"\n'
        found, notes, status = self.run_on(
            file_of("native", env=env), file_of("msr", env=other), file_of("kvm", env=kvm)
        )
        self.assertEqual((status, len(notes)), (0, 2))
        self.assertEqual(
            summary.unlike(Machine(found)),
            [
                "The columns are not alike in the local APIC's mode: native, msr: xAPIC; "
                "kvm: x2APIC.",
                "The columns are not alike in the microcode: native, kvm: 0x2b000590; "
                "msr: 0x2b000571.",
            ],
        )

    def test_smis_and_clocks(self):
        lines = (
            "bench: experiment=machine item=msr metric=smis unit=count value={}\n"
            "bench: experiment=machine item=msr metric=aperf_per_mperf unit=percent value={}\n"
        )

        def of(column, smis, clock):
            return file_of(column).replace("end:", lines.format(smis, clock) + "end:")

        found, notes, status = self.run_on(of("native", 0, 120.4), of("msr", 0, 121.0))
        self.assertEqual((notes, status, summary.unlike(Machine(found))), ([], 0, []))
        found, _, _ = self.run_on(of("native", 0, 120.4), of("msr", 3, 100.0))
        self.assertEqual(
            summary.unlike(Machine(found)),
            [
                "SMIs came during measurements: 0 in native, 3 in msr.",
                "Column msr ran at another frequency than native (APERF/MPERF): "
                "msr 100.0 % (native 120.4 %).",
            ],
        )
        table = tables.make(Machine(found), "machine")
        self.assertEqual(row_of(table, "SMIs", names=["native"]), ["0"])
        self.assertEqual(
            row_of(table, "APERF/MPERF, %", names=["msr", "kvm"]), ["100.0", "not run"]
        )

    def test_options_are_the_columns(self):
        found, _, _ = self.run_on(
            file_of("native"), file_of("msr", env=ENV + 'env: options="policy=msr tick=0"\n')
        )
        self.assertEqual(
            [found["columns"][name]["detail"] for name in ("native", "msr")],
            ["imported, 2 lines", "imported, 2 lines, policy=msr tick=0"],
        )

    def test_mitigations_are_in_the_environment(self):
        found, _, _ = self.run_on(
            file_of("msr", env=ENV + 'env: options="tick=0 mitigations=auto"\n')
        )
        self.assertEqual(found["environment"]["root_mitigations"], "auto")

    def test_few_runs_are_listed(self):
        _, notes, status = self.run_on(file_of("native").replace("n=30 min=220", "n=29 min=220"))
        self.assertEqual((status, len(notes)), (0, 1))
        self.assertIn("fewer than 30 runs are behind native msr/rdpmc (n=29)", notes[0])

    def test_ledger_of_another_shape(self):
        name = self.write("shape.json", "[1, 2]")
        with self.assertRaises(Trouble) as caught:
            self.run_on(file_of("native"), ledgers=[f"native={name}"])
        self.assertIn("no 'regions' in it", str(caught.exception))

    def test_markers_that_do_not_match(self):
        begin = "BENCH BEGIN column=native\n"
        self.assertIn("inside", self.refused(ENV + begin + begin))
        self.assertIn("has begun", self.refused(ENV + begin + "BENCH END column=msr\n"))

    def test_emulated_regions_want_the_ledger(self):
        text = file_of("native").replace('kind="metal"', 'kind="emulator"')
        found, notes, status = self.run_on(text)
        self.assertEqual(status, 1)
        self.assertIn("no ledger", notes[0])
        count = {"instructions": 20, "vmread": 0, "vmwrite": 0, "rdmsr": 0, "wrmsr": 0, "listed": 0}
        ledger = {
            "regions": {
                str(number): {
                    "begins": 1,
                    "open": False,
                    "exits": {},
                    "root": count,
                    "nonroot": {"instructions": number},
                }
                for number in (2001, 2002)
            }
        }
        name = self.write("ledger.json", json.dumps(ledger))
        found, notes, status = self.run_on(text, ledgers=[f"native={name}"])
        self.assertEqual((notes, status), ([], 0))
        value = [
            entry["value"]
            for entry in found["measurements"]
            if (entry["item"], entry["metric"]) == ("rdpmc", "instructions")
        ]
        self.assertEqual(value, [0.1])

    def test_runs_of_nginx_are_one_measurement(self):
        text = (
            'env: kind="emulator"\nenv: column="msr"\n'
            + "".join(
                f"bench: experiment=nginx item=plain{run} region={number} ops=10\n"
                for number, run in enumerate(("", ".2", ".3"), 1)
            )
            + "end: column=msr status=0\n"
        )
        count = {"instructions": 0, "vmread": 0, "vmwrite": 0, "rdmsr": 0, "wrmsr": 0, "listed": 0}
        regions = {
            str(number): {
                "begins": 1,
                "open": False,
                "exits": {},
                "root": count,
                "nonroot": {"instructions": 1000 * number},
            }
            for number in range(1, 4)
        }
        name = self.write("runs.json", json.dumps({"regions": regions}))
        found, notes, status = self.run_on(text, ledgers=[f"msr={name}"])
        self.assertEqual((notes, status), ([], 0))
        entry = [entry for entry in found["measurements"] if entry["metric"] == "instructions"]
        self.assertEqual(
            [(one["item"], one["value"], one["n"], one["min"], one["p95"]) for one in entry],
            [("plain", 200, 3, 100, 300)],
        )
