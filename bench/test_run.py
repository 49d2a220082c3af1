# SPDX-License-Identifier: BSD-2-Clause
# test_run.py: what run.py does with results: a part of a set does not replace a whole one, what
# must hold and does not is said, so is the time; troubles are one line. Nothing is booted.
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench import environment, facts, formulas, plan, results, run, tables
from bench.test_importer import file_of
from bench.test_report import emulator

RUN = {"seconds": 16 * 60, "jobs": 2, "processors": 2, "whole": True}
OFF, IBRS = "pmuvisor: mitigations: off\n", "x\r\npmuvisor: mitigations: IBRS, VERW\r\n"


def command(*arguments):
    program = [sys.executable, "-m", "bench.run", *map(str, arguments)]
    return subprocess.run(program, text=True, check=False, capture_output=True)


def expect_usage(done):
    assert (done.returncode, done.stderr.count("\n")) == (run.STATUS_USAGE, 1), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "consoles, said",
    [([], "off"), ([OFF, OFF], "off"), ([IBRS, OFF], "IBRS, VERW; off"), (["nothing"], "not said")],
)
def test_mitigations_are_read_from_the_consoles(consoles, said):
    assert environment.root_mitigations(consoles) == said


def save(folder, kind="emulator", whole=None):
    made = results.empty(kind)
    if whole is not None:
        made["run"] = {**RUN, "whole": whole}
    results.save(made, str(folder / run.RESULTS))


@pytest.mark.parametrize(
    "kind, whole, refused",
    [
        ("emulator", True, True),
        ("emulator", False, False),
        ("metal", None, True),
        ("emulator", None, False),
    ],
)
def test_a_part_does_not_replace_a_whole(tmp_path, kind, whole, refused):
    def protect(**changes):
        usual = {"out": str(tmp_path), "files": [], "only": "", "plan": False}
        run.protect(SimpleNamespace(**{**usual, "columns": results.COLUMNS, **changes}))

    save(tmp_path, kind, whole)
    protect()
    protect(only="nginx", plan=True)
    for part in ({"only": "nginx"}, {"columns": ["native"]}, {"files": ["log"]}):
        if refused:
            with pytest.raises(results.Trouble, match="--out"):
                protect(**part)
        else:
            protect(**part)


def test_the_program_refuses_and_leaves_it(tmp_path):
    save(tmp_path, whole=True)
    before = (tmp_path / run.RESULTS).stat()
    done = command("--only", "nginx", "--out", tmp_path)
    expect_usage(done)
    after = (tmp_path / run.RESULTS).stat()
    assert done.stdout == ""
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_an_import_of_columns_that_are_not_alike_says_so(tmp_path):
    """What was measured is kept all the same."""
    for name, said in (("kvm", "auto"), ("msr", "off")):
        text = file_of(name).replace("some noise", f'env: root_mitigations="{said}"')
        (tmp_path / name).write_text(text)
    done = command("--import", tmp_path / "kvm", tmp_path / "msr", "--out", tmp_path / "out")
    assert done.returncode == run.STATUS_FAILED
    assert "not alike: found mitigations of PMUvisor or of KVM's host" in done.stdout
    assert results.ok_columns(results.load(str(tmp_path / "out" / run.RESULTS))) == ["kvm", "msr"]


def test_an_import_that_cannot_be_written_is_one_line(tmp_path):
    log = tmp_path / "log"
    log.write_text(file_of("native"), encoding="utf-8")
    assert "--out" in expect_usage(command("--import", log, "--out", log / "out"))


def test_what_does_not_hold_is_said():
    made = emulator().made
    assert run.broken(made) == run.broken(results.empty("emulator")) == []
    for entry in made["measurements"]:
        if (entry["column"], entry["item"], entry["metric"]) == ("msr", "rdpmc", "exits"):
            entry["value"] = 1
    (said,) = run.broken(made)
    assert "RDPMC under PMUvisor, NMIs injected: 1 for 1, 1 exits" in said


def test_every_cell_of_table_4_1_is_wanted():
    maker = emulator()
    assert "16 of 16 cells" in facts.must_hold(maker.machine())[0][2]
    maker.made["measurements"] = [
        entry
        for entry in maker.made["measurements"]
        if (entry["column"], entry["item"]) != ("msr", "rdpmc")
    ]
    assert facts.must_hold(maker.machine())[0][3] == facts.NOT_MEASURED


@pytest.mark.parametrize(
    "changes, quick, kind, words",
    [
        ({}, True, "emulator", "took 16.0 min, wanted at most 15: too long"),
        ({}, False, "emulator", "took 16.0 min, wanted at most 50"),
        ({"whole": False}, True, "emulator", "took 16.0 min"),
        ({"processors": 1}, True, "emulator", "took 16.0 min"),
        ({}, True, "nested", "took 16.0 min"),
    ],
)
def test_time_is_said_and_judged_where_it_can_be(changes, quick, kind, words):
    assert run.took({**RUN, **changes}, quick, kind) == words


def test_nested_columns_say_their_levels():
    outcomes = [
        SimpleNamespace(
            boot=plan.Boot("b", name, "test kernel", {}, 1), failure="", measurements=[1], errors=[]
        )
        for name in ("kvm", "msr")
    ]
    made = results.empty("nested")
    made["columns"] = run.columns_of("nested", outcomes, results.COLUMNS, {})
    details = [made["columns"][name]["detail"] for name in ("kvm", "msr")]
    levels = (results.ONE_LEVEL, results.TWO_LEVELS)
    assert details == [f"test kernel; {level}" for level in levels]
    assert formulas.LEVELS in tables.make(run.Machine(made), "t41").reading
    assert formulas.LEVELS not in tables.make(emulator().machine(), "t41").reading


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


@pytest.mark.parametrize("number", run.SIGNALS)
def test_each_signal_ends_it_in_good_order(number):
    with subprocess.Popen(
        [sys.executable, "-B", "-c", WAITS],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in run.SIGNALS],
    ) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        _, said = child.communicate()
    assert child.returncode == run.STATUS_INTERRUPTED
    assert said == "bench: interrupted before the first boot\n"
