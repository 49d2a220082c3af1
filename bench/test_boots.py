# SPDX-License-Identifier: BSD-2-Clause
# test_boots.py: the plan covers what it must; what a boot brought is judged; boots run at the same
# time, and one that fails does not stop the others.
import os
import tempfile
import unittest
from types import SimpleNamespace

from bench import environment, judge, plan, results, schedule
from testbed.lab import Lab
from testbed.store import Store

EMPTY = "bench: experiment=exit item=empty metric=time unit=tsc n=1 min=2 median=2 p95=2\n"


def boot(name="b", cells=None, **changes):
    return plan.Boot(
        name=name,
        column="msr",
        title="t",
        limit=9,
        estimate=1,
        cells=cells or {"exit": ("empty",)},
        **changes,
    )


def ended(console=EMPTY + "1..1\n", status=0, errors=""):
    return SimpleNamespace(
        status=status,
        console=console,
        errors=errors,
        ledger={"regions": {}},
        seconds=1.0,
        last_line=lambda: "the last line",
    )


class Plan(unittest.TestCase):
    def test_every_column_and_variant(self):
        boots = plan.make("emulator", results.COLUMNS)
        self.assertEqual(len({one.name for one in boots}), len(boots))
        for column in results.COLUMNS:
            there = {name for one in boots if one.column == column for name in one.cells}
            self.assertLessEqual({"msr", "exit", "pmi", "a1k"}, there, column)
        variants = {one.variant for one in boots if one.variant}
        self.assertEqual(variants, set(plan.VARIANTS))
        for one in boots:
            self.assertTrue(set(one.cells) <= set(results.EXPERIMENTS), one)
            self.assertNotIn("tick", one.config)
            self.assertGreater(one.limit, one.estimate)

    def test_ablation_has_every_exit(self):
        for one in plan.make("emulator", results.COLUMNS):
            if "ablation" in one.cells:
                self.assertEqual(
                    set(one.cells["ablation"]),
                    {
                        f"{item}@{one.variant}"
                        for item in ("cpuid", "vmcall", "inl", "outl", "cpuid_blocked")
                    },
                )

    def test_linux_under_kvm(self):
        """The same jobs and words as in other columns, one level deeper."""
        boots = {one.name: one for one in plan.make("emulator", results.COLUMNS)}
        for name in plan.LINUX_BOOTS:
            native, kvm = boots[f"{name}-native"], boots[f"{name}-kvm"]
            self.assertEqual((kvm.jobs, kvm.inner), (("kvm",), native.jobs))
            self.assertEqual((kvm.program, kvm.cells), (native.program, native.cells))
            self.assertIn(f"pmv.kvm={','.join(native.jobs)} {native.append}", kvm.append)
            self.assertGreater(kvm.memory, native.memory)
        nested = {one.name: one for one in plan.make("nested", ("kvm", "msr"))}
        for name in plan.LINUX_BOOTS:
            self.assertEqual(nested[f"{name}-kvm"].jobs, nested[f"{name}-msr"].jobs)

    def test_quick_is_shorter(self):
        seconds = [
            sum(one.estimate for one in plan.make("emulator", results.COLUMNS, quick))
            for quick in (True, False)
        ]
        self.assertLessEqual(*seconds)


class Environment(unittest.TestCase):
    def test_boots_at_once(self):
        for processors, kib, wanted in ((2, 9000000, 2), (64, 8000000, 9), (4, 100, 1)):
            said = environment.boots_at_once(processors, f"MemAvailable: {kib} kB\n")
            self.assertEqual(said, wanted)

    def test_the_hosts_kvm(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(environment.host_kvm(folder, "6.1"), "Linux 6.1")
            os.makedirs(os.path.join(folder, "kvm_intel", "parameters"))
            for key, value in (("ept", "Y"), ("nested", "1")):
                with open(
                    os.path.join(folder, "kvm_intel", "parameters", key), "w", encoding="utf-8"
                ) as out:
                    out.write(f"{value}\n")
            self.assertEqual(
                environment.host_kvm(folder, "6.1"), "Linux 6.1, kvm_intel ept=Y nested=1"
            )

    def test_kind_of_machine(self):
        for flags, probed, kind, words in (
            ([], ("emulator", "no /dev/kvm"), "emulator", ["no /dev/kvm"]),
            (["vmx", "hypervisor"], ("kvm", "works"), "nested", ["works"]),
            (["vmx"], ("kvm", "works"), "nested", ["BENCH=auto", "works"]),
            (["vmx"], ("emulator", "off"), "emulator", ["BENCH=auto", "off"]),
        ):
            found, notes = environment.detect(flags, probed)
            self.assertEqual((found, len(notes)), (kind, len(words)))
            for note, word in zip(notes, words):
                self.assertIn(word, note)


class Judge(unittest.TestCase):
    def outcome(self, run, one=None):
        return judge.judge(one or boot(), run, "emulator")

    def test_good_boot(self):
        got = self.outcome(ended())
        self.assertTrue(got.ok, got.errors)
        self.assertEqual([entry["item"] for entry in got.measurements], ["empty"])

    def test_boot_that_did_not_end_well(self):
        got = self.outcome(ended(status=124, errors="run.sh: over\n"))
        self.assertIn("limit of 9 s", got.failure)
        self.assertEqual(got.measurements, [])
        self.assertEqual([entry["item"] for entry in got.skipped], ["empty"])
        self.assertIn("run.sh: over", self.outcome(ended(status=3, errors="run.sh: over")).failure)

    def test_missing_cells(self):
        got = self.outcome(ended(), boot(cells={"exit": ("empty", "cpuid"), "msr": ("empty",)}))
        self.assertEqual(len(got.errors), 2)
        self.assertIn("lacks cpuid", got.errors[0])
        self.assertIn("nothing of experiment msr", got.errors[1])
        self.assertEqual([entry["item"] for entry in got.skipped], ["cpuid", "empty"])

    def test_what_the_program_said(self):
        for console, word in (
            (EMPTY, "did not come to its end"),
            (EMPTY + "not ok 1 - measure\n1..1\n", "not ok 1"),
            ("bench: foo=1\n" + EMPTY + "1..1\n", "unknown key"),
            (
                EMPTY + "1..1\nbench: experiment=a1 item=m100 metric=pmis unit=count value=1\n",
                "not asked for",
            ),
        ):
            got = self.outcome(ended(console))
            self.assertFalse(got.ok)
            self.assertIn(word, " ".join(got.errors))
            self.assertEqual([entry["item"] for entry in got.measurements], ["empty"])

    def test_jobs_of_linux(self):
        linux = boot(program="linux", jobs=("one", "two"))
        good = EMPTY + "job: name=one status=0\n"
        self.assertTrue(self.outcome(ended(good + "job: name=two status=0\n"), linux).ok)
        self.assertIn("job two did not end", self.outcome(ended(good), linux).errors)
        got = self.outcome(ended(good + "job: name=two status=1\n"), linux)
        self.assertIn("job two ended with status 1", got.errors)
        inside = boot(program="linux", jobs=("one",), inner=("two",))
        self.assertIn("job two did not end", self.outcome(ended(good), inside).errors)

    def test_few_runs_of_hardware_are_one_note(self):
        for kind, notes in (("nested", 1), ("emulator", 0)):
            got = judge.judge(boot(), ended(), kind)
            self.assertEqual((got.ok, len(got.notes)), (True, notes))
        self.assertIn("msr exit/empty (n=1)", judge.judge(boot(), ended(), "nested").notes[0])

    def test_variant_is_an_ablation(self):
        one = boot(cells={"ablation": ("cpuid@lazy",)}, rename={"exit": "ablation"}, variant="lazy")
        got = self.outcome(ended(EMPTY + EMPTY.replace("empty", "cpuid") + "1..1\n"), one)
        self.assertTrue(got.ok, got.errors)
        self.assertEqual(
            [(entry["experiment"], entry["item"]) for entry in got.measurements],
            [("ablation", "cpuid@lazy")],
        )


class Schedule(unittest.TestCase):
    def test_the_rest_goes_on(self):
        """One that cannot be started is a line, and the others bring what they bring."""
        boots = [boot("bad"), boot("x"), boot("y"), boot("z")]
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(folder, 2, Store(os.path.join(folder, "store")))

            def start(one):
                def make():
                    if one.name == "bad":
                        raise AssertionError("no disk")
                    return ended()

                return lab.once(one.name, make)

            said = []
            outcomes, interrupted = schedule.run(
                SimpleNamespace(lab=lab, start=start), boots, "emulator", said.append
            )
        self.assertFalse(interrupted)
        self.assertEqual([outcome.boot.name for outcome in outcomes], ["bad", "x", "y", "z"])
        self.assertEqual([outcome.ok for outcome in outcomes], [False, True, True, True])
        self.assertEqual(len([line for line in said if line.startswith("[")]), 4)
        self.assertEqual(
            [line for line in said if "no disk" in line],
            ["bench: boot bad: cannot be started: no disk"],
        )
        self.assertIn("[4/4]", " ".join(said))
