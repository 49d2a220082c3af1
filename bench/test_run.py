# SPDX-License-Identifier: BSD-2-Clause
# test_run.py: what run.py does with results: a part of a set does not replace a whole one, what
# must hold and does not is said, so is the time; troubles are one line. Nothing is booted.
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace

from bench import environment, facts, formulas, plan, results, run, tables
from bench.test_importer import file_of
from bench.test_report import emulator

RUN = {"seconds": 60, "jobs": 2, "processors": 2, "whole": True}
EMULATED_SECONDS = 16 * 60


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "bench.run", *arguments],
        text=True,
        check=False,
        capture_output=True,
        timeout=21600,
    )


class Mitigations(unittest.TestCase):
    def test_they_are_read_from_the_consoles(self):
        off, ibrs = "pmuvisor: mitigations: off\n", "x\r\npmuvisor: mitigations: IBRS, VERW\r\n"
        self.assertEqual(environment.root_mitigations([]), "off")
        self.assertEqual(environment.root_mitigations([off, off]), "off")
        self.assertEqual(environment.root_mitigations([ibrs, off]), "IBRS, VERW; off")
        self.assertEqual(environment.root_mitigations(["nothing"]), "not said")


class Whole(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.name = os.path.join(self.folder.name, run.RESULTS)

    def save(self, kind="emulator", whole=None):
        made = results.empty(kind)
        if whole is not None:
            made["run"] = {**RUN, "whole": whole}
        results.save(made, self.name)

    def identity(self):
        """Of the file: another one, or another content, has another. Reading leaves it."""
        found = os.stat(self.name)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def arguments(self, **changes):
        return SimpleNamespace(
            **{
                "out": self.folder.name,
                "files": [],
                "only": "",
                "plan": False,
                "columns": list(results.COLUMNS),
                **changes,
            }
        )

    def test_a_part_does_not_replace_a_whole(self):
        parts = ({"only": "nginx"}, {"columns": ["native"]}, {"files": ["log"]})
        for kind, whole, refused in (
            ("emulator", True, True),
            ("emulator", False, False),
            ("metal", None, True),
            ("emulator", None, False),
        ):
            self.save(kind, whole)
            run.protect(self.arguments())
            run.protect(self.arguments(only="nginx", plan=True))
            for part in parts:
                if not refused:
                    run.protect(self.arguments(**part))
                    continue
                with self.assertRaises(results.Trouble) as caught:
                    run.protect(self.arguments(**part))
                self.assertIn("--out", str(caught.exception))

    def test_the_program_refuses_and_leaves_it(self):
        self.save(whole=True)
        before = self.identity()
        done = command("--only", "nginx", "--out", self.folder.name)
        self.assertEqual((done.returncode, done.stdout), (run.STATUS_USAGE, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(self.identity(), before)

    def test_an_import_that_cannot_be_written_is_one_line(self):
        log = os.path.join(self.folder.name, "log")
        with open(log, "w", encoding="utf-8") as out:
            out.write(file_of("native"))
        done = command("--import", log, "--out", os.path.join(log, "out"))
        self.assertEqual(done.returncode, run.STATUS_USAGE)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("--out", done.stderr)


class MustHold(unittest.TestCase):
    def test_what_does_not_hold_is_said(self):
        made = emulator().made
        self.assertEqual(run.broken(made), [])
        self.assertEqual(run.broken(results.empty("emulator")), [])
        for entry in made["measurements"]:
            if (entry["column"], entry["item"], entry["metric"]) == ("msr", "rdpmc", "exits"):
                entry["value"] = 1
        self.assertEqual(len(run.broken(made)), 1)
        self.assertIn("RDPMC under msr: 1 for 1, 1 exits", run.broken(made)[0])

    def test_every_cell_of_table_4_1_is_wanted(self):
        maker = emulator()
        found = facts.must_hold(maker.machine())
        self.assertIn("16 of 16 cells", found[0][2])
        maker.made["measurements"] = [
            entry
            for entry in maker.made["measurements"]
            if (entry["column"], entry["item"]) != ("msr", "rdpmc")
        ]
        self.assertEqual(facts.must_hold(maker.machine())[0][3], facts.NOT_MEASURED)


class Time(unittest.TestCase):
    def test_it_is_said_and_judged_where_it_can_be(self):
        taken = {**RUN, "seconds": EMULATED_SECONDS}
        for changes, quick, kind, words in (
            ({}, True, "emulator", "took 16.0 min, wanted at most 15: too long"),
            ({}, False, "emulator", "took 16.0 min, wanted at most 60"),
            ({"whole": False}, True, "emulator", "took 16.0 min"),
            ({"processors": 1}, True, "emulator", "took 16.0 min"),
            ({}, True, "nested", "took 16.0 min"),
        ):
            self.assertEqual(run.took({**taken, **changes}, quick, kind), words)


class Columns(unittest.TestCase):
    def test_nested_columns_say_their_levels(self):
        outcomes = [
            SimpleNamespace(
                boot=plan.Boot("b", name, "test kernel", {}, 1, 1),
                failure="",
                measurements=[1],
                errors=[],
            )
            for name in ("kvm", "msr")
        ]
        columns = run.columns_of("nested", outcomes, results.COLUMNS, {})
        self.assertEqual(columns["kvm"]["detail"], f"test kernel; {results.ONE_LEVEL}")
        self.assertEqual(columns["msr"]["detail"], f"test kernel; {results.TWO_LEVELS}")
        made = results.empty("nested")
        made["columns"] = columns
        self.assertIn(formulas.LEVELS, tables.make(run.Machine(made), "t41").reading)
        self.assertNotIn(formulas.LEVELS, tables.make(emulator().machine(), "t41").reading)


class Signals(unittest.TestCase):
    WAITS = (
        "import sys, time\n"
        "from bench import run\n"
        "def wait(_):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "run.measure = wait\n"
        "sys.argv = ['run.py', '--out', '/nonexistent']\n"
        "sys.exit(run.main())\n"
    )

    def test_each_ends_it_in_good_order(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(
                [sys.executable, "-B", "-c", self.WAITS],
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in run.SIGNALS],
            ) as child:
                self.assertEqual(child.stdout.readline(), "ready\n")
                child.send_signal(number)
                _, said = child.communicate(timeout=21600)
            self.assertEqual(child.returncode, run.STATUS_INTERRUPTED, number)
            self.assertEqual(said, "bench: interrupted before the first boot\n")
