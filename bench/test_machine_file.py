# SPDX-License-Identifier: BSD-2-Clause
# test_machine_file.py: the file of one machine: what is in it, what results/ takes and refuses, and
# the pages with a second machine. All figures are made up. metal/tests/test_collect.py has the
# file's way from a partition.
import copy
import os

import pytest

from bench import leads, machine_file, report, results, results_page, rowfile, textpage
from bench.cells import Machine
from bench.test_report import Maker, emulator

CPU = "Intel(R) Xeon(R) Gold 5520+ @ 2.20GHz"
RAN = ("native", "kvm", "msr+nmi")
NAME = "metal-xeon-gold-5520+-0x2b000590"
# As CPUID of processors of many generations has them.
PROCESSORS = """\
12th Gen Intel(R) Core(TM) i7-12800HX = 12th gen core i7-12800hx
Intel(R) Core(TM) Ultra 5 245K = core ultra 5 245k
Intel(R) Atom(TM) CPU  C2750  @ 2.40GHz = atom c2750
INTEL(R) XEON(R) GOLD 5520+ = xeon gold 5520+
Intel(R) Xeon(R) 658X = xeon 658x
Intel(R) Xeon(R) CPU           X5482  @ 3.20GHz = xeon x5482
Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz = xeon e5-2630 v3
Intel(R) Xeon(R) Platinum 8351N CPU @ 2.40GHz = xeon platinum 8351n
Intel(R) Core(TM) i7-3770K CPU @ 3.50GHz = core i7-3770k
Intel(R) Core(TM) Ultra 9 288V = core ultra 9 288v
Intel(R) Xeon(R) w7-2475X = xeon w7-2475x
Intel(R) Core(TM) i7 CPU         920  @ 2.67GHz = core i7 920
Intel(R) Core(TM) i5-1135G7 @ 2.40GHz = core i5-1135g7""".splitlines()


def second_machine(**environment):
    """Results of a made-up bare machine."""
    maker = Maker("metal", CPU)
    maker.made["environment"].update(
        microcode="0x2b000590", kernel="6.1.0-56-amd64", kvm_apicv="kvm: Y"
    )
    maker.made["environment"].update(environment)
    maker.made["tool"]["version"] = "303bd08e"
    for name, column in maker.made["columns"].items():
        detail = "imported, 7 lines" + ", policy=msr+nmi apic=pass" * (name == "msr+nmi")
        column["detail"] = detail
        if name not in RAN:
            column.update(status=results.NOT_RUN, why="not in these files", detail="")
    for at, name in enumerate(RAN):
        maker.add(name, "msr", "rdmsr_evtsel", "time", 100 + at, "cycles", min=90, p95=110)
        maker.add(name, "exit", "cpuid", "time", 1200 + at, "cycles")
        maker.add(name, "nginx", "plain", "rate", 30000 + at)
    maker.made["skipped"].append(
        {"column": "native", "experiment": "exit", "item": "vmcall", "why": "no hypervisor"}
    )
    return maker.made


@pytest.fixture
def sent(tmp_path):
    """A file as make() writes it; the folder has nothing else."""
    path = str(tmp_path / "machine.json")
    machine_file.make(second_machine(), path)
    return path


def edit(path, change):
    """Changes a file in a way that the schema has nothing against, or has."""
    found = results.load(path)
    change(found)
    rowfile.write({**found, "measurements": results.rows_of(found["measurements"])}, path)


def test_nothing_is_lost_that_is_known(sent):
    assert results.load(sent) == second_machine()


def test_every_key_of_the_schema_is_sent_or_left_out():
    """A key that the schema gets is decided on here, too."""
    keys = {*results.SHAPES["results"], *results.OPTIONAL["results"]} - {"repetitions"}
    assert keys - set(machine_file.LEFT_OUT) == set(machine_file.to_send(second_machine()))
    for kind, known in (
        ("measurement", machine_file.MEASUREMENT),
        ("repetitions", machine_file.REPETITION.split()),
    ):
        assert set(known) == {*results.SHAPES[kind], *results.OPTIONAL[kind]}
    assert set(results.ENVIRONMENT) - {"tick"} <= set(machine_file.KNOWN)


@pytest.mark.parametrize("line", PROCESSORS)
def test_names_of_processors(line):
    cpu, _, wanted = line.partition(" = ")
    assert machine_file.known_of("cpu", cpu) == " ".join(cpu.split())
    wanted = wanted.removeprefix("12th gen ").replace(" ", "-")
    found = second_machine(cpu=cpu, microcode="native: 0x3a; kvm: 0x3b")
    assert machine_file.name_of(found) == f"metal-{wanted}-0x3a"


@pytest.mark.parametrize(
    "key, value",
    [
        ("bios", "LENOVO 08/29/2023"),
        ("frequency", "2712.000 MHz, governor performance"),
        ("frequency", "2712.000 MHz, governor performance (intel_pstate, 800000 to 4000000 kHz, "
         "no_turbo=1)"),
        ("kvm", "of Linux 7.3.4+deb13-amd64 enable_pmu=Y enable_apicv=Y vmentry_l1d_flush=cond "
         "enable_mediated_pmu=- nmi_watchdog=0"),
        ("compiler", "gcc (Debian 12.2.0-14+deb12u1) 12.2.0"),
        ("governor", "performance (intel_pstate, 800000 to 4000000 kHz, no_turbo=1)"),
        ("cstates", "C1 by HLT"),
        ("cstates", "intel_idle: POLL C1_ACPI C1E C6"),
        ("ept_pages", "2 MiB and larger"),
        ("processors", "8, jobs on mask 1"),
        ("mitigations", "mitigations=off indirect_target_selection=off spectre_bhi=off"),
    ],
)  # fmt: skip
def test_what_a_machine_says_is_known(key, value):
    assert machine_file.known_of(key, value) == value


def test_what_each_column_says():
    for text, wanted in (
        ("native, msr: xAPIC PF2; kvm: x2APIC; alice: PF3", "native, msr: xAPIC; kvm: x2APIC"),
        ("kvm: x2APIC PF2", "kvm: x2APIC"),
    ):
        assert machine_file.known_of("apic", text) == wanted


def test_samples_and_repetitions_are_sent(tmp_path):
    """All keys that the schema has of them, and no other."""
    found = second_machine()
    more = {"samples": [[1, 1, 99], [2, 1, 100.5]], "n": 2, "low": 99, "high": 101}
    found["measurements"][0].update(more)
    rates = dict.fromkeys(("seconds", "smis", "aperf_per_mperf", "mperf_per_tsc"), 1.5)
    place = {"round": 1, "position": 2, "number": 1}
    found["repetitions"] = [{"column": "kvm", "experiment": "msr", **place, **rates}]
    path = str(tmp_path / "machine.json")
    assert "  repetitions: 1" in machine_file.make(found, path)
    assert results.load(path) == found == machine_file.load(path)
    for row in (found["measurements"][0], found["repetitions"][0]):
        row["host"] = "PF2"
    assert "PF2" not in str(machine_file.to_send(found))


def test_results_take_it(sent, tmp_path):
    """Under a name of its own, byte for byte; the same file not twice, another one of this machine
    is."""
    folder = tmp_path / "results"
    folder.mkdir()
    first = machine_file.add(sent, str(folder))
    assert os.path.basename(first) == f"{NAME}.json"
    with open(first, encoding="ascii") as one, open(sent, encoding="ascii") as other:
        assert one.read() == other.read()
    with pytest.raises(results.Trouble, match='-0x2b000590.json", wanted results that are not'):
        machine_file.add(sent, str(folder))
    edit(sent, lambda found: found["measurements"][0].update(value=99))
    assert os.path.basename(machine_file.add(sent, str(folder))) == f"{NAME}-2.json"
    assert not [name for name in os.listdir(folder) if not name.endswith(".json")]


def test_an_older_file_has_no_counts(sent):
    assert machine_file.load(sent)["tool"]["counts"] == results.COUNTS
    edit(sent, lambda found: found["tool"].pop("counts"))
    assert "counts" not in machine_file.load(sent)["tool"]


def torn(path):
    os.truncate(path, os.path.getsize(path) // 2)


def change(where, **values):
    def do(path):
        edit(path, lambda found: (found[where] if where else found).update(values))

    return do


REFUSED = {
    "torn": (torn, "not JSON"),
    "empty": (lambda path: os.truncate(path, 0), "not JSON"),
    "other-schema": (change("", schema=3), "schema: found 3, wanted 2"),
    "unknown-key": (change("", owner="alice"), 'found "owner", wanted one of the keys'),
    "key-within": (change("environment", host="alice"), 'found "host", wanted one of the keys'),
    "quick": (change("tool", quick=True), "a quick run"),
    "emulator": (change("environment", kind="emulator"), "wanted"),
    "no-processor": (change("environment", cpu="PF2ABC"), "a processor of Intel"),
    "no-figures": (change("", measurements=[]), "at least one column"),
    "not-alike": (change("environment", turbo="native: on; kvm: off"), "are not alike"),
    "unknown-words": (change("environment", bios="LENOVO PF2ABC"), 'wanted "LENOVO"'),
    "left-out": (change("", run=dict(seconds=1, jobs=1, processors=1, whole=True)), "run: found"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_results_refuse(sent, tmp_path, name):
    harm, words = REFUSED[name]
    harm(sent)
    folder = tmp_path / "results"
    folder.mkdir()
    with pytest.raises(results.Trouble) as trouble:
        machine_file.add(sent, str(folder))
    text = str(trouble.value)
    assert text.startswith(f"{sent}: ") and words in text and "\n" not in text
    assert not os.listdir(folder)


def emulated():
    return emulator().made


def test_the_emulators_results_are_not_sent(tmp_path):
    with pytest.raises(results.Trouble, match='environment.kind: found "emulator"'):
        machine_file.make(emulated(), str(tmp_path / "machine.json"))
    assert not os.listdir(tmp_path)


def rows_of(table):
    return {row.label: [cell.text for cell in row.cells] for row in table.rows}


def test_side_by_side():
    """Each figure in its machine's column, and units never in one row."""
    both = [("first", Machine(emulated())), ("second", Machine(second_machine()))]
    table = leads.side_by_side(both)
    assert table.groups == [("first", len(results.COLUMNS)), ("second", len(RAN))]
    rows, blank = rows_of(table), [""] * len(results.COLUMNS)
    assert rows["RDMSR of EVTSEL, cycles (median)"] == [*blank, "100", "101", "102"]
    assert rows["CPUID, cycles (median)"] == [*blank, "1,200", "1,201", "1,202"]
    assert rows["nginx, requests per second"] == [*blank, "30,000", "30,001", "30,002"]
    assert rows["RDMSR of EVTSEL, instructions"][0] == "1"
    assert rows["RDMSR of EVTSEL, instructions"][-len(RAN) :] == [""] * len(RAN)
    # Of two figures of one cost the first that a machine has.
    assert rows["CPUID, instructions in root mode"][1] == "1,200"
    assert "CPUID, instructions" not in rows
    groups = [row.label for row in table.rows if row.kind == "group"]
    assert groups == sorted(groups) and groups[0].startswith("Table 4.1")
    assert len([label for label in rows if label.startswith("Linux, 1000 PMIs add")]) == 1


def test_report_of_several_machines():
    """The table is in the report of several machines, and not in that of one."""
    one, two = Machine(emulated()), Machine(second_machine())
    for machines, count in (([one], 0), ([two], 0), ([one, two], 1)):
        assert report.html_of(machines).count('<h3 id="side-by-side">') == count
        assert report.text_of(machines).count("Machines side by side") == count
    assert "30,002" in "\n".join(textpage.lines_of(report.beside([one, two])[0]))


def test_pages_of_several_machines():
    """docs/results.md gets the table, each machine gets its pages, and no page of the first machine
    changes. Two sets of one processor have names of their own."""
    first = results_page.load()
    found = second_machine()
    other = copy.deepcopy(found)
    other["environment"]["microcode"] = "0x2b000600"
    machines = {**first, NAME: Machine(found), "other": Machine(other)}
    report.numbered(list(machines.values()))
    alone, together = dict(results_page.pages_of(first)), dict(results_page.pages_of(machines))
    page = together.pop(results_page.PAGE)
    assert "Machines side by side" in page and "side by side" not in alone.pop(results_page.PAGE)
    assert f"{NAME}: native" in page and "| RDMSR of EVTSEL, cycles (median) |" in page
    assert page.count("\n## metal: Intel(R) Xeon(R) Gold 5520+ @ 2.20GHz, set ") == 2
    assert alone.items() <= together.items()
    assert f"{NAME}-tables.md" in map(os.path.basename, together)
