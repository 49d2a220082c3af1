# SPDX-License-Identifier: BSD-2-Clause
# test_measurements.py: measurements.ini is where columns, experiments and items are written: one
# more row is there for the plan, shells, boot menu, bare machine and report. Bad rows are refused.
# What has its own word on a column or an item names one that is there.
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from bench import columns, facts, figures, measurements, plan, plots, published, test_report
from bench.measurements import ALL, KVM, TOP
from bench.test_report import PEERS
from testbed import machine

MENU = os.path.join(TOP, "testbed", "menu.sh")
MORE = (
    "[columns]\nlazy+x = pmuvisor policy=msr/unblock=lazy PMUvisor, lazily\n"
    "[parts]\nabl_one = lazy+x bookkeeping=lost one\n"
    "[plans]\nbrief = columns=lazy+x parts=abl_one jobs=exit:1 minutes=5 rounds=2 least=1\n"
)
TABLES = ["bench/measurements.ini", *glob.glob("experiments/*/measurements.ini", root_dir=TOP)]
LAST = "experiments/zzz/measurements.ini"  # read after all others
# What shells and the boot menu have: all columns, and the parts and configurations of plans.
MACHINES = list(columns.NAMES)
PLANS = {
    name: dict(word.split("=", 1) for word in text.split())
    for name, text in ALL.sections["plans"].items()
}
PARTS = list(dict.fromkeys(part for plan in PLANS.values() for part in plan["parts"].split(",")))


@pytest.fixture
def with_rows(tmp_path):
    """Makes a folder whose tables have these rows as well."""

    def make(rows):
        for name in (*TABLES, LAST):
            (tmp_path / name).parent.mkdir(parents=True)
        for name in TABLES:
            shutil.copy(os.path.join(TOP, name), tmp_path / name)
        (tmp_path / LAST).write_text(rows)
        return str(tmp_path)

    return make


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
    table = measurements.Measurements(top)
    table.alike()
    return columns.read(table)


def test_peers_are_named_and_hosted():
    assert {
        name: (columns.option(name, "host"), columns.option(name, "mediated")) for name in PEERS
    } == {"kvm-new": ("trixie-backports", ""), "kvm-mediated": ("trixie-backports", "1")}
    assert set(PEERS) <= set(columns.PEERS)
    for name in (*PEERS, *test_report.MACHINES):
        assert columns.is_kvm(name) == name.startswith("kvm")


def test_one_row_is_one_column(with_rows):
    there, parts, _ = read(with_rows(MORE))
    assert tuple(there) == (*columns.NAMES, "lazy+x")
    assert there["lazy+x"] == (
        "lazy+x",
        "pmuvisor",
        "policy=msr unblock=lazy",
        "PMUvisor, lazily",
        "",
    )
    assert (parts["abl_one"].variant, parts["abl_one"].on) == ("one", "lazy+x")


def test_shells_have_the_same_columns(with_rows):
    reader = (
        f". '{TOP}/bench/measurements.sh'; column_names; part_names; column_of abl_one; "
        "variant_of abl_one; column_of lazy+x; column_of lazy; column_of abl_two"
    )
    said = shell(reader, measurements_top=with_rows(MORE)).split()
    assert said == [*MACHINES, "lazy+x", *PARTS, "abl_one", "lazy+x", "one", "lazy+x"]


def test_menu_has_the_same_columns(with_rows):
    menu = shell(f"'{MENU}'", MEASUREMENTS_TOP=with_rows(MORE))
    assert f'set columns="{" ".join(MACHINES)} lazy+x"\n' in menu
    assert f'set column_parts="{" ".join(PARTS)} abl_one"\n' in menu
    row = menu.split('"$1" = lazy+x ]')[1].split("elif")[0]
    assert 'column_title="PMUvisor, lazily"' in row
    assert 'column_options="policy=msr unblock=lazy"' in row
    assert 'column_measured="policy=msr unblock=lazy bookkeeping=all apic=pass ' in row
    part = menu.split('"$1" = abl_one ]')[1]
    assert 'column_record="policy=msr/unblock=lazy/bookkeeping=lost/apic=pass/' in part
    # Without PMUvisor there are none of its options.
    assert "options" not in menu.split('"$1" = kvm ]')[1].split("elif")[0]
    assert "column_image=no_bookkeeping\n" in menu.split('"$1" = abl_compiled_out ]')[1]
    assert "plan_minutes=5\n" in menu.split('"$1" = brief ]')[1]


def test_menu_starts_kvm_as_the_emulator_does(with_rows):
    """The words of the Linux that runs KVM, with its mitigations and without, and its kernel."""
    menu = shell(f"'{MENU}'", MEASUREMENTS_TOP=with_rows(MORE))
    rows = {name: columns.COLUMNS[name] for name in columns.COLUMNS if columns.is_kvm(name)}
    for name in rows:
        row = menu.split(f'"$1" = {name} ]')[1].split("elif")[0]
        assert f'column_words="{plan.kvm_words(name)}"' in row
        host = columns.option(name, "host")
        assert (f"column_host=-{host}\n" in row) == bool(host) == (name in columns.PEERS)
        twin = menu.split(f'"$1" = {name}_mitigated ]')[1].split("elif")[0]
        wanted = plan.kvm_words(name).replace(KVM, plan.host_words("mitigations=auto")).split()
        assert sorted(twin.split('column_words="')[1].split('"')[0].split()) == sorted(wanted)
        assert "mitigations=off" not in twin and "nox2apic" in wanted


def test_plans_name_rows():
    known = {"columns": columns.NAMES, "parts": {**columns.ALL_PARTS, **columns.CONFIGS}}
    known["jobs"] = [name for name, one in ALL.experiments.items() if one.get("metal")]
    for name, found in PLANS.items():
        for key, rows in known.items():
            words = [word.partition(":")[0] for word in found[key].split(",")]
            assert words == ["all"] or set(words) <= set(rows), (name, key)
        # Shares are of minutes, and a plan with them has all that its arithmetic needs.
        assert (":" in found["jobs"]) == ("minutes" in found) == ("least" in found), name
        assert int(found["rounds"]) >= 1, name


@pytest.mark.parametrize(
    "row",
    [
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
        "[alike]\nheat = maybe heat\n",
        "[alike]\nheat = refuse\n",
        "[alike]\nkernel = say Linux\n",
    ],
)
def test_bad_rows(with_rows, row):
    with pytest.raises(ValueError):
        read(with_rows(row))


def test_what_must_be_alike(with_rows):
    found = measurements.Measurements(with_rows("[alike]\nheat = say heat of it\n")).alike()
    assert found["heat"] == (False, "heat of it") and found["root_mitigations"].refuse


def test_dictionaries_know_their_columns():
    keys = {
        name
        for table in ("1", "2", "3", "4", "5", "6")
        for name in getattr(published, f"TABLE_4_{table}_COLUMNS")
    }
    assert keys | set(facts.HOLDS_FOR) <= set(columns.NAMES)
    assert set(plots.COLUMN_COLOURS) == set(columns.NAMES)


def test_every_linux_has_the_words():
    assert set(measurements.LINUX.split()) <= set(machine.PAYLOAD_APPEND.split())


def test_options_are_as_the_hypervisor_has_them():
    with open(os.path.join(TOP, "boot", "option_table.h"), encoding="ascii") as source:
        known = source.read()
    for key in measurements.OPTIONS:
        assert f"({key}," in known


def test_shells_have_the_same_experiments_and_items():
    said = shell(
        f"measurements_top='{TOP}'; . '{TOP}/bench/measurements.sh'; metal_jobs; "
        "items_in ablation exit; value_of 'experiment profile' words; "
        "value_of measured pmuvisor"
    ).splitlines()
    wanted = [name for name, one in ALL.experiments.items() if one.get("metal")]
    wanted += [item.name for item in ALL.items_in("ablation")]
    assert said == [
        *wanted,
        ALL.experiments["profile"].get("words"),
        " ".join("=".join(pair) for pair in measurements.OPTIONS.items()),
    ]


def test_published_figures_are_of_items():
    for experiment, table in (
        ("msr", published.TABLE_4_1),
        ("a1", published.TABLE_4_2),
        ("exit", published.TABLE_4_3),
        ("profile", published.TABLE_4_5),
    ):
        assert set(table) <= set(ALL.names(experiment))
    assert set(figures.PLOTTED) <= {item.name for item in ALL.items_in("ablation")}


def test_programs_have_the_items():
    """Of the measurements at CPL 0: each has its name in their sources."""
    sources = pathlib.Path(TOP, "programs", "measure").glob("*.c")
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    items = [item for one in ALL.of_program("kernel") for item in ALL.names(one.name)]
    assert [item for item in items if f'"{item}"' not in text] == []


# What a new experiment is: its row.
ROWS = """\
[experiment doze]
program = linux
metal = 77
limit = 100
words = pmv.doze=1
[items doze]
nap = doze  one nap
"""
TABLE = """\
[table.doze]
title = "What a nap costs"
reading = ["It is made up."]
"""
# What its program and a new item print.
SAYS = """\
bench: experiment=doze item=nap region=1 ops=1 metric=time unit=tsc n=30 min=70 median=4321 p95=9000
bench: experiment=exit item=pause metric=time unit=tsc n=30 min=70 median=5432 p95=9000
"""
# A column before all others; one between them; and after them an experiment's, with a policy of its
# own. Their images.
FIRST = "first = pmuvisor policy=msr/unblock=lazy PMUvisor, a first column\n"
BETWEEN = "between = peer host=trixie-backports KVM, a column between\n"
LAST_COLUMN = "[columns]\nlast = pmuvisor policy=last PMUvisor, a last column\n"
POLICY = '    .policy = {"last", POLICY_MSR},\n'
IMAGES = {"first": "pmuvisor.efi", "between": "pmuvisor.efi", "last": "pmuvisor-lab.efi"}
# An item more of what is there already.
ITEM = "pause = t43  PAUSE\n"


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """A copy of the tree with these rows."""
    top = tmp_path_factory.mktemp("copy")
    skipped = shutil.ignore_patterns("build", ".git", "out", "__pycache__")
    shutil.copytree(TOP, top, ignore=skipped, symlinks=True, dirs_exist_ok=True)
    new = top / "experiments" / "doze"
    (new / "hypervisor").mkdir(parents=True)
    (new / "hypervisor" / "experiment.c").write_text(POLICY)
    (new / "measurements.ini").write_text(ROWS + LAST_COLUMN)
    (new / "tables.toml").write_text(TABLE)
    table = top / "bench" / "measurements.ini"
    rows = table.read_text().replace("\nmsr  ", f"\n{BETWEEN}msr  ", 1)
    for before, row in (("[columns]\n", FIRST), ("[items exit]\n", ITEM)):
        rows = rows.replace(before, before + row)
    table.write_text(rows)
    return str(top)


def run_python(top, *arguments):
    done = subprocess.run(
        [sys.executable, "-B", *arguments], cwd=top, check=False, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def boots(top, columns, text):
    """Of each boot of these columns, this text."""
    return run_python(
        top,
        "-c",
        "from bench import launch, plan\n"
        f"for boot in plan.make('emulator', {columns}):\n    print({text})",
    )


def test_plan_has_it(top):
    said = boots(
        top, ("native", "kvm"), "boot.name, boot.jobs, boot.inner, boot.append, boot.cells"
    )
    assert "doze-native ('doze',) () pmv.doze=1 {'doze': ('nap',)}" in said
    assert "doze-kvm ('kvm',) ('doze',)" in said
    kernel = next(line for line in said.splitlines() if line.startswith("kernel-native"))
    assert "'exit': ('pause', 'empty', 'cpuid'," in kernel


def test_each_column_has_boots_with_its_image(top):
    said = boots(top, tuple(IMAGES), "boot.name, launch.Launcher.efi(boot).split('/')[-1]")
    for name, image in IMAGES.items():
        for boot in ("kernel", "a1"):
            assert f"{boot}-{name} {image}\n" in said


def test_report_has_columns_that_are_newer_than_the_results(top):
    for file in glob.glob(os.path.join(TOP, "results", "*.json")):
        text = " ".join(run_python(top, "-m", "bench.report", "--text", file).split())
        for row in (FIRST, BETWEEN, LAST_COLUMN):
            head = re.search(r"(?:PMUvisor|KVM), .*", row)[0]
            assert re.search(rf"{head}[^.]*\bthese results are older", text), head
        run_python(top, "-m", "bench.report", "--out", os.path.join(top, "page"), file)


def on_metal(top, command):
    jobs = (
        f"measurements_top='{top}'; . '{top}/bench/measurements.sh'; "
        f". '{top}/metal/auto/jobs.sh'; word() {{ echo \"$2\"; }}; "
        "processor_lines() { :; }; column=native; "
    )
    return shell(jobs + command)


def test_bare_machine_and_report_have_it(top, tmp_path):
    assert "doze" in on_metal(top, "jobs_of_column native").split()
    assert on_metal(top, "job_seconds doze; job_command doze") == "77\n/init doze\n"
    printed, native, out = (tmp_path / name for name in ("printed", "native.txt", "out"))
    printed.write_text(SAYS)
    kept = on_metal(top, f"job_result doze '{printed}' ''")
    assert "region=" not in kept
    native.write_text(
        f'env: kind="metal"\nenv: column="native"\n{kept}end: column=native status=0\n'
    )
    run_python(top, "-m", "bench.run", "--out", str(out), "--import", str(native))
    text = run_python(top, "-m", "bench.report", "--text", str(out / "results.json"))
    assert "What a nap costs" in text and "It is made up." in text
    assert re.search(r"(?m)^one nap .* 4,321\b", text)
    assert re.search(r"(?m)^PAUSE .* 5,432\b", text.partition("Table 4.3")[2])
