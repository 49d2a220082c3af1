# SPDX-License-Identifier: BSD-2-Clause
# test_boots.py: the plan covers what it must; what a boot brought is judged; boots run at the same
# time, and one that fails does not stop the others.
from types import SimpleNamespace

import pytest

from bench import environment, judge, plan, results, schedule

EMPTY = "bench: experiment=exit item=empty metric=time unit=tsc n=1 min=2 median=2 p95=2\n"


def boot(name="b", cells=None, **changes):
    return plan.Boot(
        name=name, column="msr", title="t", limit=9, cells=cells or {"exit": ("empty",)}, **changes
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


# ---- the plan ----


def test_every_column_and_variant():
    boots = plan.make("emulator", results.COLUMNS)
    assert len({one.name for one in boots}) == len(boots)
    for column in results.COLUMNS:
        there = {name for one in boots if one.column == column for name in one.cells}
        assert {"msr", "exit", "pmi", "a1k"} <= there, column
    assert {one.variant for one in boots if one.variant} == set(plan.VARIANTS)
    for one in boots:
        assert set(one.cells) <= set(results.EXPERIMENTS) and "tick" not in one.config, one


def test_ablation_has_every_exit():
    exits = ("cpuid", "vmcall", "inl", "outl", "cpuid_blocked")
    for one in plan.make("emulator", results.COLUMNS, only=("ablation-",)):
        assert set(one.cells["ablation"]) == {f"{item}@{one.variant}" for item in exits}


def test_second_runs_have_the_words_of_their_first():
    """Its suffix is no part of the name: kernel- selects no config-trap-kernel-second."""
    boots = plan.make("emulator", results.COLUMNS, only=("kernel-",))
    firsts = [one.name for one in boots if not one.first]
    assert firsts == [f"kernel-{column}" for column in results.COLUMNS]
    assert [one.first for one in boots if one.first] == firsts


def test_mitigations_have_a_processor_that_needs_them():
    boots = [one for one in plan.make("emulator", results.COLUMNS) if not one.first]
    mitigated = {one.name for one in boots if "_mitigated" in f"_{one.config_name}"}
    assert len(mitigated) == 8
    assert mitigated == {one.name for one in boots if set(plan.SPECULATION) <= set(one.knobs)}
    assert not any(one.knobs for one in plan.make("nested", ("kvm", "msr+nmi")))


@pytest.mark.parametrize("name", plan.LINUX_BOOTS)
def test_linux_under_kvm(name):
    """The same jobs and words as in other columns, one level deeper."""
    boots = {one.name: one for one in plan.make("emulator", results.COLUMNS)}
    native, kvm = boots[f"{name}-native"], boots[f"{name}-kvm"]
    assert (kvm.jobs, kvm.inner) == (("kvm",), native.jobs)
    assert (kvm.program, kvm.cells) == (native.program, native.cells)
    assert f"pmv.kvm={','.join(native.jobs)} {native.append}" in kvm.append
    assert kvm.memory > native.memory
    nested = {one.name: one for one in plan.make("nested", ("kvm", "msr"))}
    assert nested[f"{name}-kvm"].jobs == nested[f"{name}-msr"].jobs


# ---- the machine ----


@pytest.mark.parametrize(
    "processors, kib, wanted", [(2, 9000000, 2), (64, 8000000, 9), (4, 100, 1)]
)
def test_boots_at_once(processors, kib, wanted):
    assert environment.boots_at_once(processors, f"MemAvailable: {kib} kB\n") == wanted


def test_the_hosts_kvm(tmp_path):
    assert environment.host_kvm(str(tmp_path), "6.1") == "Linux 6.1"
    folder = tmp_path / "kvm_intel" / "parameters"
    folder.mkdir(parents=True)
    for key, value in (("ept", "Y"), ("nested", "1")):
        (folder / key).write_text(f"{value}\n")
    assert environment.host_kvm(str(tmp_path), "6.1") == "Linux 6.1, kvm_intel ept=Y nested=1"


@pytest.mark.parametrize(
    "flags, probed, kind, words",
    [
        ([], ("emulator", "no /dev/kvm"), "emulator", ["no /dev/kvm"]),
        (["vmx", "hypervisor"], ("kvm", "works"), "nested", ["works"]),
        (["vmx"], ("kvm", "works"), "nested", ["BENCH=thesis", "works"]),
        (["vmx"], ("emulator", "off"), "emulator", ["BENCH=thesis", "off"]),
    ],
)
def test_kind_of_machine(flags, probed, kind, words):
    found, notes = environment.detect(flags, probed)
    assert (found, len(notes)) == (kind, len(words))
    assert all(word in note for note, word in zip(notes, words)), notes


# ---- what a boot brought ----


def outcome_of(run, one=None, kind="emulator"):
    return judge.judge(one or boot(), run, kind)


def items(entries):
    return [entry["item"] for entry in entries]


def test_good_boot():
    got = outcome_of(ended())
    assert got.ok and items(got.measurements) == ["empty"], got.errors


def test_boot_that_did_not_end_well():
    got = outcome_of(ended(status=124, errors="run.sh: over\n"))
    assert "limit of 9 s" in got.failure
    assert (items(got.measurements), items(got.skipped)) == ([], ["empty"])
    assert "run.sh: over" in outcome_of(ended(status=3, errors="run.sh: over")).failure


def test_missing_cells():
    got = outcome_of(ended(), boot(cells={"exit": ("empty", "cpuid"), "msr": ("empty",)}))
    assert len(got.errors) == 2 and items(got.skipped) == ["cpuid", "empty"]
    assert "lacks cpuid" in got.errors[0] and "nothing of experiment msr" in got.errors[1]


@pytest.mark.parametrize(
    "console, words",
    [
        (EMPTY, "did not come to its end"),
        (EMPTY + "not ok 1 - measure\n1..1\n", "not ok 1"),
        ("bench: foo=1\n" + EMPTY + "1..1\n", "unknown key"),
        (
            EMPTY + "1..1\nbench: experiment=a1 item=m100 metric=pmis unit=count value=1\n",
            "not asked for",
        ),
    ],
)
def test_what_the_program_said(console, words):
    got = outcome_of(ended(console))
    assert not got.ok and words in " ".join(got.errors) and items(got.measurements) == ["empty"]


ONE = EMPTY + "job: name=one status=0\n"
LINUX = boot(program="linux", jobs=("one", "two"))
INSIDE = boot(program="linux", jobs=("one",), inner=("two",))


@pytest.mark.parametrize(
    "console, one, errors",
    [
        (ONE + "job: name=two status=0\n", LINUX, []),
        (ONE, LINUX, ["job two did not end"]),
        (ONE + "job: name=two status=1\n", LINUX, ["job two ended with status 1"]),
        (ONE, INSIDE, ["job two did not end"]),
    ],
)
def test_jobs_of_linux(console, one, errors):
    assert outcome_of(ended(console), one).errors == errors


def test_few_runs_of_hardware_are_one_note():
    assert outcome_of(ended()).notes == []
    got = outcome_of(ended(), kind="nested")
    (note,) = got.notes
    assert got.ok and "msr exit/empty (n=1)" in note


def test_variant_is_an_ablation():
    one = boot(cells={"ablation": ("cpuid@lazy",)}, rename={"exit": "ablation"}, variant="lazy")
    got = outcome_of(ended(EMPTY + EMPTY.replace("empty", "cpuid") + "1..1\n"), one)
    assert got.ok, got.errors
    (entry,) = got.measurements
    assert (entry["experiment"], entry["item"]) == ("ablation", "cpuid@lazy")


def test_the_rest_goes_on():
    """One that cannot be started is a line, and the others bring what they bring."""

    def start(one):
        assert one.name != "bad", "no disk"
        return ended()

    said, names = [], ["bad", "x", "y", "z"]
    outcomes, interrupted = schedule.run(
        SimpleNamespace(jobs=2, start=start), list(map(boot, names)), "emulator", said.append
    )
    assert not interrupted and [outcome.boot.name for outcome in outcomes] == names
    assert [outcome.ok for outcome in outcomes] == [False, True, True, True]
    lines = "\n".join(said).splitlines()
    assert len([line for line in lines if line.startswith("[")]) == 4 and "[4/4]" in "".join(lines)
    assert [line for line in lines if "no disk" in line] == [
        "bench: boot bad: cannot be started: no disk"
    ]
