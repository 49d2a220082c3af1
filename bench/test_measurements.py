# SPDX-License-Identifier: BSD-2-Clause
# test_measurements.py: measurements.ini is where columns, experiments and items are written: one
# more row is there for the plan, shells, boot menu, bare machine and report. Bad rows are refused.
# What has its own word on a column or an item names one that is there.
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from bench import columns, facts, figures, launch, measurements, plots, published, test_report
from bench.measurements import ALL, TOP
from bench.test_report import PEERS
from testbed import machine

MENU = os.path.join(TOP, "testbed", "menu.sh")
MORE = (
    "[columns]\nlazy+x = pmuvisor policy=msr/unblock=lazy PMUvisor, lazily\n"
    "[parts]\nabl_one = lazy+x bookkeeping=lost one\n"
)
TABLES = ["bench/measurements.ini", *glob.glob("experiments/*/measurements.ini", root_dir=TOP)]
LAST = "experiments/zzz"  # whose table is read after all others
# What shells and the boot menu have: peers and images of their own are the emulator's alone.
MACHINES = [name for name in columns.NAMES if name not in columns.PEERS]
PARTS = list(columns.PARTS)


def with_rows(rows, then):
    """What `then` makes of a folder whose tables have these rows as well."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-table.") as top:
        for name in TABLES:
            os.makedirs(os.path.join(top, os.path.dirname(name)))
            shutil.copy(os.path.join(TOP, name), os.path.join(top, name))
        os.makedirs(os.path.join(top, LAST))
        write(os.path.join(top, LAST, "measurements.ini"), rows)
        return then(top)


def write(name, text):
    with open(name, "w", encoding="ascii") as out:
        out.write(text)
    return name


def shell(command, **environment):
    done = subprocess.run(
        ["sh", "-euc", command],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def read(top):
    return columns.read(measurements.Measurements(top))


class Columns(unittest.TestCase):
    def test_peers_are_named_and_hosted(self):
        self.assertEqual(
            {
                name: (columns.option(name, "host"), columns.option(name, "mediated"))
                for name in PEERS
            },
            {"kvm-new": ("trixie-backports", ""), "kvm-mediated": ("trixie-backports", "1")},
        )
        self.assertLessEqual(set(PEERS), set(columns.PEERS))
        for name in (*PEERS, *test_report.MACHINES):
            self.assertEqual(columns.is_kvm(name), name.startswith("kvm"))

    def test_one_row_is_one_column(self):
        there, parts, _ = with_rows(MORE, read)
        self.assertEqual(tuple(there), (*columns.NAMES, "lazy+x"))
        self.assertEqual(
            there["lazy+x"],
            ("lazy+x", "pmuvisor", "policy=msr unblock=lazy", "PMUvisor, lazily", ""),
        )
        self.assertEqual((parts["abl_one"].variant, parts["abl_one"].on), ("one", "lazy+x"))

    def test_shells_have_the_same_columns(self):
        reader = (
            f". '{TOP}/bench/measurements.sh'; column_names; part_names; column_of abl_one; "
            "variant_of abl_one; column_of lazy+x; column_of lazy; column_of abl_two"
        )
        said = with_rows(MORE, lambda top: shell(reader, measurements_top=top)).split()
        self.assertEqual(said, [*MACHINES, "lazy+x", *PARTS, "abl_one", "lazy+x", "one", "lazy+x"])

    def test_menu_has_the_same_columns(self):
        menu = with_rows(MORE, lambda top: shell(f"'{MENU}'", MEASUREMENTS_TOP=top))
        self.assertIn(f'set columns="{" ".join(MACHINES)} lazy+x"\n', menu)
        self.assertIn(f'set column_parts="{" ".join(PARTS)} abl_one"\n', menu)
        row = menu.split('"$1" = lazy+x ]')[1].split("elif")[0]
        self.assertIn('column_title="PMUvisor, lazily"', row)
        self.assertIn('column_options="policy=msr unblock=lazy"', row)
        self.assertIn('column_measured="policy=msr unblock=lazy bookkeeping=all apic=pass ', row)
        part = menu.split('"$1" = abl_one ]')[1]
        self.assertIn('column_record="policy=msr/unblock=lazy/bookkeeping=lost/apic=pass/', part)
        # Without PMUvisor there are none of its options.
        self.assertNotIn("options", menu.split('"$1" = kvm ]')[1].split("elif")[0])

    def test_bad_rows(self):
        for row in (
            "[columns]\nmsr = pmuvisor policy=msr twice\n",
            "[columns]\nx = pmuvisor a=b\n",
            "[columns]\nx = nowhere - where\n",
            "[columns]\na/b = machine - a path\n",
            "[parts]\nabl_x = none tick=0 none\n",
            "[parts]\nabl_x = msr tick=0\n",
            "[parts]\nabl_all = msr+nmi tick=0 again\n",
            "[items exit]\ncpuid = t43 twice\n",
            "[items exit]\na = - a\na = - b\n",
            "no section\n",
        ):
            with self.assertRaises(ValueError, msg=row):
                with_rows(row, read)

    def test_dictionaries_know_their_columns(self):
        keys = {
            name
            for table in ("1", "2", "3", "4", "5", "6")
            for name in getattr(published, f"TABLE_4_{table}_COLUMNS")
        }
        self.assertLessEqual(keys | set(facts.HOLDS_FOR), set(columns.NAMES))
        self.assertEqual(set(plots.COLUMN_COLOURS), set(columns.NAMES))


class Measured(unittest.TestCase):
    def test_what_starts_a_boot_says_the_same(self):
        self.assertEqual(launch.MITIGATIONS, measurements.LINUX)
        self.assertLessEqual(set(measurements.LINUX.split()), set(machine.PAYLOAD_APPEND.split()))

    def test_options_are_as_the_hypervisor_has_them(self):
        with open(os.path.join(TOP, "boot", "option_table.h"), encoding="ascii") as source:
            known = source.read()
        for key in measurements.OPTIONS:
            self.assertIn(f"({key},", known)


class Items(unittest.TestCase):
    def test_shells_have_the_same_experiments_and_items(self):
        said = shell(
            f"measurements_top='{TOP}'; . '{TOP}/bench/measurements.sh'; metal_jobs; "
            "items_in ablation exit; value_of 'experiment profile' words; "
            "value_of measured pmuvisor"
        ).splitlines()
        wanted = [name for name, one in ALL.experiments.items() if one.get("metal")]
        wanted += [item.name for item in ALL.items_in("ablation")]
        self.assertEqual(
            said,
            [
                *wanted,
                ALL.experiments["profile"].get("words"),
                " ".join("=".join(pair) for pair in measurements.OPTIONS.items()),
            ],
        )

    def test_published_figures_are_of_items(self):
        for experiment, table in (
            ("msr", published.TABLE_4_1),
            ("a1", published.TABLE_4_2),
            ("exit", published.TABLE_4_3),
            ("profile", published.TABLE_4_5),
        ):
            self.assertLessEqual(set(table), set(ALL.names(experiment)))
        self.assertLessEqual(set(figures.PLOTTED), {item.name for item in ALL.items_in("ablation")})

    def test_programs_have_the_items(self):
        """Of the measurements at CPL 0: each has its name in their sources."""
        text = ""
        for name in glob.glob(os.path.join(TOP, "programs", "measure", "*.c")):
            with open(name, encoding="utf-8") as source:
                text += source.read()
        lacking = [
            f"{one.name}/{item}"
            for one in ALL.of_program("kernel")
            for item in ALL.names(one.name)
            if f'"{item}"' not in text
        ]
        self.assertEqual(lacking, [])


# What a new experiment is: its row, and a program, here one that counts nothing.
ROWS = """\
[experiment doze]
program = linux
metal = 77
limit = 100
estimate = 5 5
words = pmv.doze=1
[items doze]
nap = doze  one nap
"""
TABLE = """\
[table.doze]
title = "What a nap costs"
reading = ["It is made up."]
"""
PROGRAM = """\
#!/bin/sh
echo "bench: experiment=doze item=nap region=9001 ops=1 metric=time unit=tsc" \\
    "n=30 min=70 median=4321 p95=9000"
"""
# An item more of what is there already.
ITEM = "pause = t43  PAUSE\n"
ITEM_SAYS = (
    "bench: experiment=exit item=pause metric=time unit=tsc n=30 min=70 median=5432 p95=9000\n"
)


class OneRow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pmuvisor-copy.")
        cls.addClassCleanup(folder.cleanup)
        cls.top = folder.name
        for name in ("bench", "testbed", "metal"):
            shutil.copytree(
                os.path.join(TOP, name),
                os.path.join(cls.top, name),
                ignore=shutil.ignore_patterns("out", "__pycache__"),
            )
        new = os.path.join(cls.top, "experiments", "doze")
        os.makedirs(new)
        write(os.path.join(new, "measurements.ini"), ROWS)
        write(os.path.join(new, "tables.toml"), TABLE)
        cls.program = write(os.path.join(new, "doze.sh"), PROGRAM)
        table = os.path.join(cls.top, "bench", "measurements.ini")
        with open(table, encoding="ascii") as source:
            rows = source.read()
        write(table, rows.replace("[items exit]\n", f"[items exit]\n{ITEM}"))

    def run_python(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-B", *arguments],
            cwd=self.top,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_plan_has_it(self):
        said = self.run_python(
            "-c",
            "from bench import plan\n"
            "for boot in plan.make('emulator', ('native', 'kvm')):\n"
            "    print(boot.name, boot.jobs, boot.inner, boot.append, boot.cells)",
        )
        self.assertIn("doze-native ('doze',) () pmv.doze=1 {'doze': ('nap',)}", said)
        self.assertIn("doze-kvm ('kvm',) ('doze',)", said)
        kernel = next(line for line in said.splitlines() if line.startswith("kernel-native"))
        self.assertIn("'exit': ('pause', 'empty', 'cpuid',", kernel)

    def on_metal(self, command, **more):
        jobs = (
            f"measurements_top='{self.top}'; . '{self.top}/bench/measurements.sh'; "
            f". '{self.top}/metal/auto/jobs.sh'; word() {{ echo \"$2\"; }}; "
            "processor_lines() { :; }; column=native; "
        )
        return shell(jobs + command, **more)

    def test_bare_machine_and_report_have_it(self):
        self.assertIn("doze", self.on_metal("jobs_of_column native").split())
        self.assertEqual(self.on_metal("job_seconds doze; job_command doze"), "77\n/init doze\n")
        printed = write(
            os.path.join(self.top, "printed"), shell(f"sh '{self.program}'") + ITEM_SAYS
        )
        kept = self.on_metal(f"job_result doze '{printed}' ''")
        self.assertNotIn("region=", kept)
        name = write(
            os.path.join(self.top, "native.txt"),
            'env: kind="metal"\nenv: column="native"\n' f"{kept}end: column=native status=0\n",
        )
        out = os.path.join(self.top, "out")
        self.run_python("-m", "bench.run", "--out", out, "--import", name)
        text = self.run_python("-m", "bench.report", "--text", os.path.join(out, "results.json"))
        for words in ("What a nap costs", "It is made up."):
            self.assertIn(words, text)
        self.assertRegex(text, r"(?m)^one nap .* 4,321 ")
        self.assertRegex(text.partition("Table 4.3")[2], r"(?m)^PAUSE .* 5,432 ")


if __name__ == "__main__":
    unittest.main()
