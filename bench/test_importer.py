# SPDX-License-Identifier: BSD-2-Clause
# test_importer.py: files of a bare machine and console logs with markers, whole and broken ones.
import json

import pytest

from bench import importer, report, results, summary, tables
from bench.cells import Machine
from bench.results import Trouble
from bench.test_convert import region
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


def imported(*texts):
    """Imports files with these texts."""
    return importer.run({f"{at}.txt": text for at, text in enumerate(texts)})


def values(found, item="rdpmc"):
    return [entry["value"] for entry in found["measurements"] if entry["item"] == item]


def test_a_file_for_each_column():
    found, notes, status = imported(file_of("native"), file_of("msr"))
    assert (notes, status, found["environment"]["cpu"]) == ([], 0, "Xeon")
    assert results.ok_columns(found) == ["native", "msr"] and values(found) == [22, 22]
    assert {entry["unit"] for entry in found["measurements"]} == {"cycles"}


def section(name):
    return f"BENCH BEGIN column={name}\n{LINES}end: column={name} status=0\n"


def test_a_log_with_markers():
    log = "".join(
        f"{section(name)}BENCH END column={name}\nnoise\n" for name in ("native", "msr+nmi")
    )
    version = 'env: version="v1"\n'
    found, notes, status = imported((ENV + version + log).replace("\n", "\r\n"))
    assert (notes, status, found["tool"]["version"]) == ([], 0, "v1")
    assert results.ok_columns(found) == ["native", "msr+nmi"]


def test_a_log_that_was_cut():
    found, notes, status = imported(ENV + "BENCH BEGIN column=native\n" + LINES)
    assert (status, len(notes), found["measurements"]) == (1, 1, [])
    assert "the log ends" in found["columns"]["native"]["why"]


def test_columns_that_failed():
    """None has figures, and why is of the file that says it."""
    found, notes, status = imported(
        file_of("msr", 'status=3 why="no VMX"'),
        file_of("native"),
        file_of("intercept", 'status=1 why="refused"'),
        file_of("msr+nmi").partition("end:")[0],
    )
    assert (status, len(notes)) == (1, 3)
    assert {entry["column"] for entry in found["measurements"]} == {"native"}
    why = {name: column["why"] for name, column in found["columns"].items()}
    assert (why["msr"], why["intercept"], why["native"]) == ("no VMX", "refused", "")
    assert "cut off" in why["msr+nmi"] and why["kvm"] == importer.ABSENT


def test_a_bad_line_is_said():
    found, (note,), status = imported(file_of("native").replace("rdpmc base", "rdpmc bass"))
    assert status == 1 and "unknown key 'bass'" in note
    assert results.ok_columns(found) == ["native"]


BEGIN = ENV + "BENCH BEGIN column=native\n"


@pytest.mark.parametrize(
    "texts, words",
    [
        (["nothing here\n"], "column"),
        ([file_of("native", env="")], "kind"),
        ([file_of("xen")], "xen"),
        (['env: tick="100"\n' + file_of("native")], "tick=100"),
        (['env: foo="1"\n' + file_of("native")], "unknown key 'foo'"),
        (["env: kind=metal\n" + file_of("native")], "wanted env:"),
        ([file_of("native").replace("end: column=native", "end: column=msr")], "end"),
        ([file_of("native"), file_of("msr", env=ENV.replace("Xeon", "Core"))], "cpu"),
        (
            [
                file_of(name, env=f'{ENV}env: version="{version}"\n')
                for name, version in (("native", "v1"), ("msr", "v2"))
            ],
            'tool.version of column msr: found "v2"',
        ),
        ([BEGIN + BEGIN], "inside"),
        ([BEGIN + "BENCH END column=msr\n"], "has begun"),
    ],
)
def test_refused(texts, words):
    with pytest.raises(Trouble) as caught:
        imported(*texts)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_settings_that_differ_between_columns():
    env = 'env: governor="powersave"\nenv: frequency="3000 MHz"\n'
    found, notes, status = imported(
        file_of("native", env=ENV + env),
        file_of("msr", env=ENV.replace("off", "on") + env.replace("powersave", "performance")),
    )
    assert (status, len(notes)) == (0, 2)
    assert found["environment"]["turbo"] == "native: off; msr: on"
    assert found["environment"]["frequency"] == "3000 MHz"
    assert found["environment"]["governor"] == "native: powersave; msr: performance"


def test_what_makes_columns_unlike_is_said():
    env = (
        ENV + 'env: microcode="0x2b000590"\nenv: bios="V 1.2 01/02/2024"\n'
        'env: processors="1"\nenv: apic="xAPIC"\n'
    )
    found, notes, _ = imported(file_of("native", env=env), file_of("msr", env=env))
    assert (notes, summary.unlike(Machine(found))) == ([], [])
    assert found["environment"]["microcode"] == "0x2b000590"
    other = env.replace("590", "571")
    # As a job under KVM says it, after what the host has.
    kvm = env + 'env: apic="x2APIC"\n'
    found, notes, status = imported(
        file_of("native", env=env), file_of("msr", env=other), file_of("kvm", env=kvm)
    )
    assert (status, len(notes)) == (0, 2)
    assert summary.unlike(Machine(found)) == [
        "Columns differ in local APIC's mode: native, msr: xAPIC; kvm: x2APIC.",
        "Columns differ in microcode: native, kvm: 0x2b000590; msr: 0x2b000571.",
    ]


def test_a_mixed_pair_makes_no_report():
    """KVM's host has its mitigations, and PMUvisor has not."""
    found, _, _ = imported(
        file_of("native"),
        file_of("kvm", env=ENV + 'env: root_mitigations="auto"\n'),
        file_of("msr", env=ENV + 'env: options="policy=msr mitigations=off"\n'),
    )
    with pytest.raises(Trouble, match="root_mitigations.: kvm: auto; msr: off; wanted one value"):
        report.by_machine([found])
    ((machine,), _) = report.by_machine([found], ["native", "msr"])
    assert results.LEFT_OUT in machine.results["columns"]["kvm"]["why"]
    assert row_of(tables.make(machine, "t41"), "RDPMC", names=["native", "msr"])[:2] == ["22", "22"]
    different, _, _ = imported(
        file_of("native"), file_of("msr", env=ENV + 'env: frequency="2 MHz"\n')
    )
    assert report.by_machine([different])


def test_smis_and_clocks():
    lines = (
        "bench: experiment=machine item=msr metric=smis unit=count value={}\n"
        "bench: experiment=machine item=msr metric=aperf_per_mperf unit=percent value={}\n"
    )

    def of(column, smis, clock):
        return file_of(column).replace("end:", lines.format(smis, clock) + "end:")

    found, notes, status = imported(of("native", 0, 120.4), of("msr", 0, 121.0))
    assert (notes, status, summary.unlike(Machine(found))) == ([], 0, [])
    found, _, _ = imported(of("native", 0, 120.4), of("msr", 3, 100.0))
    assert summary.unlike(Machine(found)) == [
        "SMIs came during measurements: 0 in native; 3 in PMUvisor, NMIs injected.",
        "PMUvisor, NMIs injected ran at another frequency than native (APERF/MPERF): "
        "msr 100.0 % (native 120.4 %).",
    ]
    table = tables.make(Machine(found), "machine")
    assert row_of(table, "SMIs", names=["native"]) == ["0"]
    assert row_of(table, "APERF/MPERF, %", names=["msr", "kvm"]) == ["100.0", "not run"]


def test_options_are_the_columns():
    options = 'env: options="policy=msr tick=0 mitigations=auto"\n'
    found, _, _ = imported(file_of("native"), file_of("msr", env=ENV + options))
    assert [found["columns"][name]["detail"] for name in ("native", "msr")] == [
        "imported, 2 lines",
        "imported, 2 lines, policy=msr tick=0 mitigations=auto",
    ]
    assert found["environment"]["root_mitigations"] == "msr: auto"


def test_few_runs_are_listed():
    _, (note,), status = imported(file_of("native").replace("n=30 min=220", "n=29 min=220"))
    assert status == 0 and "fewer than 30 runs are behind native msr/rdpmc (n=29)" in note


EMULATED = file_of("native").replace('kind="metal"', 'kind="emulator"')


def test_emulated_regions_want_the_ledger(tmp_path):
    _, notes, status = imported(EMULATED)
    assert status == 1 and "no ledger" in notes[0]
    name = tmp_path / "ledger.json"
    name.write_text(
        json.dumps({"regions": {str(number): region(nonroot=number) for number in (2001, 2002)}})
    )
    ledgers = importer.read_ledgers([f"native={name}"])
    found, notes, status = importer.run({"log": EMULATED}, ledgers)
    assert (notes, status) == ([], 0)
    (rdpmc,) = [
        entry["value"]
        for entry in found["measurements"]
        if (entry["item"], entry["metric"]) == ("rdpmc", "instructions")
    ]
    assert rdpmc == 0.1
    with pytest.raises(Trouble, match="wanted COLUMN=FILE"):
        importer.read_ledgers(["xen=ledger.json"])


def test_ledger_of_another_shape():
    _, notes, status = importer.run({"log": EMULATED}, {"native": [1, 2]})
    assert status == 1 and "this is no ledger" in notes[0]


# ---- several starts, with samples ----


def start(column, place, *values, job="msr", more="", **env):
    """A start's file: one repetition for each value of RDPMC's."""
    texts = [ENV, f'env: round="{place}"\nenv: position="2"\n']
    texts += [f'env: {key}="{value}"\n' for key, value in env.items()]
    for at, value in enumerate(values, 1):
        text = LINES.replace("median=240", f"median={value}")
        texts.append(
            f"sample: job={job} number={at} seconds=2.1 smis={at - 1} aperf_per_mperf=100.0\n{text}"
        )
    return "".join([*texts, more, f'env: column="{column}"\nend: column={column} status=0\n'])


def sampled(found, column="native"):
    (entry,) = [
        one
        for one in found["measurements"]
        if (one["column"], one["item"], one["metric"]) == (column, "rdpmc", "time")
    ]
    return entry


def test_starts_of_a_column_become_one_column():
    """The base is that of the same repetition: 240 less 20, of 10 operations."""
    found, notes, status = imported(
        start("native", 1, 240, 250), start("msr", 1, 230, 230), start("native", 2, 260, 240)
    )
    assert (notes, status, results.ok_columns(found)) == ([], 0, ["native", "msr"])
    entry = sampled(found)
    assert entry["samples"] == [[1, 1, 22], [1, 2, 23], [2, 1, 24], [2, 2, 22]]
    assert (entry["value"], entry["n"]) == (22.5, 4)
    assert entry["low"] < 22.5 < entry["high"] and "p95" not in entry
    same = sampled(found, "msr")
    assert (same["low"], same["value"], same["high"]) == (21, 21, 21)
    assert "of 2 starts" in found["columns"]["native"]["detail"]
    assert found["repetitions"][1] == {
        "column": "native",
        "experiment": "msr",
        "round": 1,
        "position": 2,
        "number": 2,
        "seconds": 2.1,
        "smis": 1,
        "aperf_per_mperf": 100.0,
    }
    assert len(found["repetitions"]) == 6


def test_samples_are_kept_one_row_a_line(tmp_path):
    found, _, _ = imported(start("native", 1, 240, 250), start("native", 2, 260))
    name = tmp_path / "results.json"
    results.save(found, str(name))
    text = name.read_text()
    assert len([line for line in text.splitlines() if '"samples"' in line]) == 2  # two items
    assert len([line for line in text.splitlines() if '"number"' in line]) == 3
    again = results.load(str(name))
    assert again["repetitions"] == found["repetitions"] and sampled(again) == sampled(found)
    # Merging and choosing columns leave them with their column.
    merged, _ = results.merge([again, imported(start("msr", 1, 1))[0]])
    assert {one["column"] for one in merged["repetitions"]} == {"native", "msr"}
    assert {one["column"] for one in results.only(merged, ["msr"])["repetitions"]} == {"msr"}


def test_a_start_that_was_cut_is_left_out():
    cut = start("native", 2, 900, 900).partition("end:")[0]
    found, (note,), status = imported(start("native", 1, 240, 250), cut)
    assert status == 1 and "cut off" in note
    assert [one[0] for one in sampled(found)["samples"]] == [1, 1]


def test_a_file_without_samples_is_read_as_before():
    found, (note,), _ = imported(file_of("native"), file_of("native", env=ENV + 'env: round="2"\n'))
    assert "more than once" in note and "repetitions" not in found
    assert sampled(found)["n"] == 30


@pytest.mark.parametrize(
    "texts, words",
    [
        ([start("native", 1, 1), start("native", 1, 2)], "each round and number once"),
        ([start("native", 0, 1)], "round is '0'"),
        ([start("native", 1, 1, more="sample: job=msr\n")], "wanted sample: job=J number=N"),
        ([start("native", 1, 1, more="sample: job=msr number=0\n")], "wanted sample:"),
        ([start("native", 1, 1, more="sample: job=msr number=2 heat=3\n")], '"heat"'),
        ([start("native", 1, 1, job="doze")], "repetitions[0].experiment"),
        (
            [start("native", 1, 1, microcode="1"), start("native", 2, 1, microcode="2")],
            "starts of column native differ in microcode",
        ),
    ],
)
def test_refused_samples(texts, words):
    with pytest.raises(Trouble) as caught:
        imported(*texts)
    assert words in str(caught.value) and "\n" not in str(caught.value)
