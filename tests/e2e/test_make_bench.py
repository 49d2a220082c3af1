# SPDX-License-Identifier: BSD-2-Clause
# test_make_bench.py: bench/run.py on a few boots of the test kernel: what the results must hold,
# and that a broken line or a region without an account is refused. What one run left is imported
# again.
import json
import os
import sys
import tempfile

import pytest

from bench import results as results_file
from tests import commands
from tests.e2e.test_measure import MSR_ITEMS

pytestmark = pytest.mark.more

COLUMNS = ("native", "kvm", "msr+nmi")
KVM_TIMES = 10  # a CPUID exit of KVM has at least so many times the root instructions
STATUS_OK, STATUS_FAILED, STATUS_USAGE = 0, 1, 2


def run(*arguments):
    """(exit status, lines on stdout and stderr) of bench/run.py."""
    status, said = commands.run(sys.executable, "-m", "bench.run", *arguments)
    return status, said.splitlines()


def out_of(lab):
    return os.path.join(lab.keep, "measure")


def measured(lab):
    """One run of the test kernel in three columns; made once."""

    def make():
        status, lines = run(
            "--kind",
            "emulator",
            "--columns",
            ",".join(COLUMNS),
            "--only",
            "kernel-",
            "--out",
            out_of(lab),
        )
        complaints = [line for line in lines if line.startswith("bench: boot ")]
        assert status == STATUS_OK and not complaints, complaints[:2] or lines[-2:]
        return results_file.load(os.path.join(out_of(lab), "results.json"))

    return lab.once("make_bench", make)


def values(results, column, experiment, metric):
    return {
        entry["item"]: entry["value"]
        for entry in results["measurements"]
        if (entry["column"], entry["experiment"], entry["metric"]) == (column, experiment, metric)
    }


def test_run(lab):
    """A run brings all of its columns, exact and without cycles, with the versions it had."""
    results = measured(lab)
    for name, column in results["columns"].items():
        wanted = "ok" if name in COLUMNS else "not run"
        assert column["status"] == wanted, f"{name}: {column}"
    assert {entry["unit"] for entry in results["measurements"]} <= {"instructions", "count"}
    environment = results["environment"]
    for key in (
        "cpu",
        "kernel",
        "kvm",
        "emulator",
        "compiler",
        "date",
        "mitigations",
        "root_mitigations",
    ):
        assert environment[key], f"environment.{key} is empty"
    assert environment["kind"] == "emulator" and environment["tick"] == 0, environment
    return f"{len(results['measurements'])} measurements"


def test_passthrough(lab):
    """Table 4.1: an access costs exactly the native instructions under msr+nmi, and no exit."""
    results = measured(lab)
    native = values(results, "native", "msr", "instructions")
    guest = values(results, "msr+nmi", "msr", "instructions")
    exits = values(results, "msr+nmi", "msr", "exits")
    for item in MSR_ITEMS:
        assert guest[item] == native[item] == 1, f"{item}: {guest[item]}, natively {native[item]}"
        assert exits[item] == 0, f"{item}: {exits[item]} exits"
    through_kvm = values(results, "kvm", "msr", "exits")
    assert all(through_kvm[item] >= 1 for item in MSR_ITEMS), through_kvm


def test_cpuid_exit(lab):
    """A CPUID exit has at most a tenth of the root instructions that KVM's has."""
    results = measured(lab)
    ours = values(results, "msr+nmi", "exit", "root_instructions")["cpuid"]
    theirs = values(results, "kvm", "exit", "root_instructions")["cpuid"]
    assert 0 < ours * KVM_TIMES <= theirs, f"{ours}, under KVM {theirs}"
    return f"{ours} root instructions, under KVM {theirs:g}"


def import_again(lab, change_text=None, change_ledger=None):
    """The run's native console and ledger, changed, through --import."""
    measured(lab)
    boots = os.path.join(out_of(lab), "boots")
    with open(
        os.path.join(boots, "kernel-native.console"), encoding="utf-8", errors="replace"
    ) as source:
        console = source.read().replace("\r", "")
    with open(os.path.join(boots, "kernel-native.json"), encoding="utf-8") as source:
        ledger = json.load(source)
    lines = [line for line in console.splitlines() if line.startswith("bench: ")]
    text = "\n".join(
        ['env: kind="emulator"', 'env: column="native"', *lines, "end: column=native status=0", ""]
    )
    if change_text:
        changed = change_text(text)
        assert changed != text, "nothing was changed"
        text = changed
    if change_ledger:
        change_ledger(ledger)
    with tempfile.TemporaryDirectory(prefix="pmuvisor-import.") as folder:
        log, ledger_file = os.path.join(folder, "log"), os.path.join(folder, "ledger")
        with open(log, "w", encoding="utf-8") as out:
            out.write(text)
        with open(ledger_file, "w", encoding="utf-8") as out:
            json.dump(ledger, out)
        status, said = run("--import", log, "--ledger", f"native={ledger_file}", "--out", folder)
        return status, said, results_file.load(os.path.join(folder, "results.json"))


def test_import(lab):
    """The console and the ledger of a run, imported, give the same figures. They are of one run, so
    none is exact."""
    status, said, results = import_again(lab)
    assert status == STATUS_OK, said[:3]
    wanted = [entry for entry in measured(lab)["measurements"] if entry["column"] == "native"]
    assert results["measurements"] == [{**entry, "exact": False} for entry in wanted]


def expect_refused(lab, word, **changes):
    """Exit status 1, one line that says why, and no figure for RDPMC."""
    status, said, results = import_again(lab, **changes)
    assert status == STATUS_FAILED, f"exit status {status}"
    complaints = [line for line in said if word in line]
    assert len(complaints) == 1, f"wanted one line with '{word}': {complaints or said[:3]}"
    assert "rdpmc" not in values(results, "native", "msr", "instructions")
    return complaints[0].partition(": column ")[2][:120]


def misspell(text):
    return "\n".join(
        line.replace("median=", "medium=") if "item=rdpmc " in line else line
        for line in text.splitlines()
    )


def test_broken_line(lab):
    """A line with a key that nobody knows is refused."""
    return expect_refused(lab, "unknown key 'medium'", change_text=misspell)


def region_of(lab, item):
    """The number that the console gives to an item of experiment msr."""
    name = os.path.join(out_of(lab), "boots", "kernel-native.console")
    with open(name, encoding="utf-8", errors="replace") as source:
        for line in source:
            if line.startswith(f"bench: experiment=msr item={item} "):
                return line.partition("region=")[2].split()[0]
    raise AssertionError(f"the console has no item {item}")


def test_missing_region(lab):
    """A region that the ledger does not have is refused."""
    measured(lab)
    return expect_refused(
        lab,
        "not in the ledger",
        change_ledger=lambda ledger: ledger["regions"].pop(region_of(lab, "rdpmc")),
    )


def test_region_twice(lab):
    """A region that was marked more than once is refused."""
    measured(lab)
    return expect_refused(
        lab,
        "begun 2 times",
        change_ledger=lambda ledger: ledger["regions"][region_of(lab, "rdpmc")].update(begins=2),
    )


def test_usage(lab):
    """What cannot be run is one line and exit status 2."""
    for arguments, word in (
        (["--columns", "xen"], "unknown column 'xen'"),
        (["--only", "nothing"], "nothing"),
        (["--jobs", "0"], "--jobs 0"),
        (["--import", "/nonexistent"], "/nonexistent"),
    ):
        status, said = run(*arguments, "--out", out_of(lab))
        assert status == STATUS_USAGE, f"{arguments}: exit status {status}"
        assert word in said[-1], f"{arguments}: {said[-1:]}"
