# SPDX-License-Identifier: BSD-2-Clause
# test_auto.py: measuring on a bare machine, from power-on to the report: an EFI system partition as
# `make install` fills it, on the emulator's disk; the machine resets itself from column to column
# and is cut from its power on the way. All chains are for FULL=1; without it, only what needs none.
import hashlib
import os
import re
import shutil
import tempfile
import time

import pytest

from bench import columns as table
from bench import results as results_file
from metal.tests.auto_disk import make_disk, put_on, read_console, read_folder, run, run_once
from metal.tests.made_up import (
    COLLECT,
    append,
    complaints,
    content,
    make,
    mtools,
    new_esp,
    put,
    put_parts,
)
from testbed.boots import image, initrd, kernel
from testbed.machine import STATUS_POWEROFF, TOP, made, path
from tests.e2e.machines import ALDER_LAKE, ALDER_LAKE_MODEL
from tests.e2e.scripts import expect_line
from tests.e2e.scripts import run as command

pytestmark = pytest.mark.more

NAMES = list(table.NAMES)
# Further boots of msr+nmi, which belong to its results.
PARTS = ["abl_no_skid", "abl_none", "abl_lazy"]
JOBS = "msr,exit,pmi,a1k,a1,profile,nginx,accuracy"
# Short: this is about the way, not the figures.
WORDS = (
    f"pmv.jobs={JOBS} pmv.runs=3 pmv.operations=100 pmv.a1_runs=1 "
    "pmv.iter=1000000 pmv.profile_runs=1 pmv.nginx_ms=100 pmv.accuracy=1:1:16"
)
# (the line at which the power goes, millions of instructions after it): in a job's first moments,
# in its middle, and while the results of a column are put together.
CUTS = [
    ("column=native job=exit attempt=1", 1),
    ("column=native job=accuracy status=0 kept", 1),
    ("column=kvm job=exit attempt=1", 200),
    ("column=intercept job=pmi attempt=1", 30),
    ("column=msr job=accuracy status=0 kept", 10),
]
TORN = "bench/native/exit.txt"
# A processor that counts its SMIs, and had three before anybody looked.
SMI_COUNT = "msr 0x34 3\n"


class Chain:
    """What the way left: consoles of all runs, and the partition after each."""

    def __init__(self):
        self.consoles, self.folders, self.status = [], [], None
        self.seconds = 0

    def console(self):
        return "\n".join(self.consoles)


def whole(data):
    """A file of results that is not torn has its own sum in its last line."""
    text, mark, found = data.rpartition(b"check: md5=")
    return bool(mark) and found.decode().strip() == hashlib.md5(text).hexdigest()


def chain(lab):
    def measure():
        found, started = Chain(), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="pmuvisor-auto.") as work:
            disk, knobs = make_disk(work, " ".join(NAMES + PARTS), WORDS, SMI_COUNT)
            for number, cut in enumerate([*CUTS, None]):
                console_file = os.path.join(lab.keep, f"auto{number}.console")
                found.status = run(disk, knobs, work, console_file, cut)
                found.consoles.append(read_console(console_file))
                found.folders.append(read_folder(disk, work, number))
                if found.status is not None:
                    break
                if number == 0:
                    # As a cut in the middle of its writing would leave it.
                    put_on(disk, work, TORN, "bench: experiment=exit item=empty ops=100 met")
            kept = os.path.join(lab.keep, "auto-esp")
            shutil.rmtree(kept, ignore_errors=True)
            os.makedirs(os.path.join(kept, "EFI", "pmuvisor"))
            shutil.copytree(
                os.path.join(work, f"bench{len(found.consoles) - 1}", "bench"),
                os.path.join(kept, "EFI", "pmuvisor", "bench"),
            )
        found.esp, found.seconds = kept, time.monotonic() - started
        return found

    return lab.once("auto", measure)


@pytest.mark.full
def test_from_power_on(lab):
    """Each column is measured by a boot of its own, and the machine goes off after the last."""
    found = chain(lab)
    assert (
        len(found.consoles) == len(CUTS) + 1
    ), f"run {len(found.consoles)} ended with status {found.status} before its power was cut"
    assert (
        found.status == STATUS_POWEROFF
    ), f"exit status {found.status}, last line: {found.consoles[-1].strip().splitlines()[-1:]}"
    console = found.console()
    places = [console.find(f"BENCH BEGIN column={name}\n") for name in NAMES]
    assert -1 not in places and places == sorted(places), f"columns on the serial line: {places}"
    assert "Without results" not in console, "a column was given up"
    failed = re.findall(r"auto: column=\S+ job=\S+ status=[1-9]\d*.*", console)
    assert not failed, f"jobs: {failed}"
    assert console.rstrip().endswith(
        "the results are in EFI/pmuvisor/bench."
    ), "the menu does not say that all is complete"
    return f"{len(NAMES)} columns, {len(CUTS)} power cuts, {found.seconds:.0f} s"


@pytest.mark.full
def test_same_on_both_ways(lab):
    """What is on the partition is what was printed between the markers."""
    found = chain(lab)
    for name in NAMES:
        marker = f"column={name}\n"
        printed = found.console().split("BENCH BEGIN " + marker)[1].split("BENCH END " + marker)[0]
        kept = found.folders[-1][f"bench/{name}.txt"].decode()
        # The kernel's messages may come in between.
        for line in kept.splitlines():
            assert line in printed, f"column {name}: '{line}' is on the partition alone"


@pytest.mark.full
def test_power_cut_loses_nothing(lab):
    """What was finished before a cut is there after it, byte for byte, and is not run again."""
    found = chain(lab)
    finished = 0
    for number in range(len(CUTS)):
        before, after = found.folders[number], found.folders[number + 1]
        for name, data in before.items():
            if not whole(data):
                continue
            finished += 1
            assert after.get(name) == data, f"{name} was lost or changed after cut {number + 1}"
            column, _, job = name.removeprefix("bench/").removesuffix(".txt").partition("/")
            again = f"column={column} job={job} attempt"
            assert not job or again not in found.consoles[number + 1], f"{name} was run again"
    torn = found.folders[-1][TORN]
    assert whole(torn) and b"item=cpuid " in torn, f"{TORN}: the torn file was taken as it was"
    assert finished > 0, "nothing was finished before the cuts: they prove nothing"
    return f"{finished} finished files before {len(CUTS)} cuts, all as they were"


def collected(done, out):
    """(results, report) that a collecting command left in this folder."""
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    return (
        results_file.load(os.path.join(out, "results.json")),
        content(out, "report.html").decode(),
    )


@pytest.mark.full
def test_report(lab, tmp_path):
    """make collect: results.json with every column, and the report."""
    found, out = chain(lab), str(tmp_path)
    results, report = collected(make("collect", f"ESP={found.esp}", f"COLLECT_OUT={out}"), out)
    assert "Table 4.1" in report, "the report has no tables"
    # The serial lines alone give the same, but for the ablation, which is no column.
    logs = [
        os.path.join(lab.keep, f"auto{number}.console")
        for number, text in enumerate(found.consoles)
        if "BENCH END column=" in text
    ]
    serial_out = os.path.join(out, "serial")
    done = command("/usr/bin/python3", "-m", "bench.run", "--out", serial_out, "--import", *logs)
    assert done.returncode == 0, f"import of the serial lines: {done.stdout} {done.stderr}"
    serial = results_file.load(os.path.join(serial_out, "results.json"))
    mine = [
        m for m in results["measurements"] if m["experiment"] != "ablation" and "@" not in m["item"]
    ]
    assert serial["measurements"] == mine, "serial line and partition have different results"
    assert [m["item"] for m in results["measurements"] if m["item"].startswith("cpuid@")] == [
        "cpuid@" + part.removeprefix("abl_") for part in PARTS
    ], "the ablation is not complete"
    assert results["tool"]["version"], "nothing says which version this was"
    detail = results["columns"]["msr+nmi"]["detail"]
    assert "policy=msr+nmi bookkeeping=all unblock=eager apic=pass" in detail, detail
    assert "enable_apicv=Y" in results["environment"]["kvm"], results["environment"]["kvm"]
    assert {m["column"] for m in results["measurements"] if m["experiment"] == "a1"} == set(
        NAMES
    ), "Linux's A.1 is not in every column"
    states = {name: results["columns"][name]["status"] for name in NAMES}
    assert set(states.values()) == {"ok"}, f"columns: {states}"
    value = {
        (m["column"], m["item"]): m["value"]
        for m in results["measurements"]
        if m["experiment"] == "msr" and m["metric"] == "time"
    }
    read = {name: value[name, "rdmsr_evtsel"] for name in NAMES}
    # The emulator's TSC counts instructions: RDMSR itself, and what a hypervisor adds.
    assert (
        read["native"] == read["msr+nmi"] == 1 and read["kvm"] > 100
    ), f"RDMSR of EVTSEL by the module in Linux: {read}"
    return f"{len(results['measurements'])} measurements; RDMSR of EVTSEL, instructions: {read}"


@pytest.mark.full
def test_environment_of_each_column(lab, tmp_path):
    """Where columns are not alike the report says so first: under KVM Linux is in x2APIC mode. SMIs
    and frequencies are those of each job; microcode is the same, for none is loaded."""
    done = command(*COLLECT, chain(lab).esp, tmp_path)
    results, report = collected(done, tmp_path)
    top = report.partition("<nav")[0]
    environment = results["environment"]
    others = ", ".join(name for name in NAMES if name != "kvm")
    assert environment["apic"] == f"{others}: xAPIC; kvm: x2APIC", environment["apic"]
    assert f"not alike in the local APIC&#x27;s mode: {others}: xAPIC" in top, top[-1000:]
    assert re.fullmatch("0x[0-9a-f]+", environment["microcode"]), environment["microcode"]
    assert "microcode" not in top and environment["processors"] == "1", environment
    values = {
        (m["column"], m["item"], m["metric"]): m["value"]
        for m in results["measurements"]
        if m["experiment"] == "machine"
    }
    wanted = [(name, job) for name in NAMES for job in JOBS.split(",")]
    wanted += [("msr+nmi", part.replace("abl_", "ablation@")) for part in PARTS]
    for name, item in wanted:
        assert values.get((name, item, "smis")) == 0, f"{name}, {item}: {sorted(values)}"
        # The emulator's two counters are one, read one after the other.
        assert 99 < values.get((name, item, "aperf_per_mperf"), 0) < 101, f"{name}, {item}"
        assert 0 < values.get((name, item, "mperf_per_tsc"), 0) <= 100.1, f"{name}, {item}"


@pytest.mark.full
def test_trouble_does_not_stop_the_chain(lab):
    """A hypervisor that refuses to start and a job that took the machine down twice are left out,
    and said so; the others are measured, with what the processor did besides."""

    def begun_twice(disk, work):
        put_on(disk, work, "bench/native/exit.1", "it did not end in 1000 s\n")
        put_on(disk, work, "bench/native/exit.2", "")

    words = "pmv.jobs=msr,exit,pmi pmv.runs=1 pmv.operations=10"
    knobs = "hide_feature vmx\n" + SMI_COUNT
    status, kept, console = run_once(
        lab, "refused", "intercept native", words, knobs, change=begun_twice
    )
    assert status == STATUS_POWEROFF, f"exit status {status}"
    assert console.count("PMUvisor refuses to start") == 1, "PMUvisor was started again, or not"
    assert "Without results: intercept" in console, "the menu does not say what is missing"
    assert "bench/native.ok" in kept and "bench/intercept.ok" not in kept, sorted(kept)
    for wanted in (
        "experiment=msr item=rdpmc ",
        'env: apic="xAPIC"',
        'env: processors="1"',
        'env: microcode="0x2000065"',
        "experiment=machine item=msr metric=smis unit=count value=0",
        "item=msr metric=aperf_per_mperf ",
        "experiment=pmi item=nmi_self ",
        'experiment=exit item=all skip="begun twice: first it did not end in 1000 s, '
        'then the machine went down in it"',
    ):
        assert wanted in kept["bench/native.txt"].decode(), f"native.txt has no '{wanted}'"
    assert "job=exit attempt" not in console, "a job was begun a third time"


@pytest.mark.full
def test_all_processors(lab):
    """bench_cpus=all: every processor is up, natively and under PMUvisor, and the jobs are on the
    first; of a hybrid machine the results name its kind."""

    def all_processors(disk, work):
        local = mtools("mtype", disk, "::/EFI/pmuvisor/local.cfg").decode()
        put_on(disk, work, "local.cfg", local + "set bench_cpus=all\n")

    words = "pmv.jobs=exit,a1 pmv.runs=3 pmv.operations=10 pmv.a1_runs=1 tsc_early_khz=50000"
    status, kept, _ = run_once(
        lab,
        "cpus",
        "native msr+nmi",
        words,
        "\n".join(ALDER_LAKE),
        cpus=2,
        change=all_processors,
        model=ALDER_LAKE_MODEL,
    )
    assert status == STATUS_POWEROFF, f"exit status {status}"
    for name in ("native", "msr+nmi"):
        text = kept[f"bench/{name}.txt"].decode()
        assert 'env: processors="2, jobs on mask 1"' in text, f"{name}: {text[:600]}"
        assert re.search(r'^env: cpu=".+, cpu_core"$', text, re.MULTILINE), f"{name}: {text[:600]}"
        assert "experiment=exit item=cpuid " in text and "item=all skip=" not in text, text


def test_install(tmp_path):
    """install.sh --bench: what it refuses, in one line; a second time keeps edits and results."""
    script, parts = path("metal", "install.sh"), tmp_path / "parts"
    esp, folder = new_esp(tmp_path)
    files = (esp, made(image()), kernel(), made(initrd()))
    expect_line(command(script, "--fast", *files), "--fast", "wanted --bench or --auto")
    expect_line(command(script, "--auto", *files), "--auto wants --bench")
    parts.mkdir()
    done = command(script, "--bench", parts, *files)
    expect_line(done, "vmlinuz", "make build/auto/stock/build.txt")
    said = complaints(make("-s", "install", f"ESP={esp}", "BENCH=all"))
    assert len(said) == 1 and "BENCH=all, wanted auto or none" in said[0], said
    put_parts(parts)
    for _ in range(2):
        done = command(script, "--bench", parts, "--auto", *files)
        assert done.returncode == 0, done.stderr
        for name in ("local.cfg", "bench/native.txt"):
            append(os.path.join(folder, name), b"# mine\n")
        assert len(content(folder, "bench", "id")) > 8, "no identity of this partition"
    text = content(folder, "local.cfg")
    assert text.count(b"# mine") == 2 and text.count(b"set bench=auto") == 1, text
    assert content(folder, "bench", "native.txt") == b"# mine\n" * 2
    for name in {*table.COLUMNS, *table.PARTS} - {*table.PEERS}:
        data = content(folder, "bench", f"{name}.env")
        begin = b"# GRUB Environment Block\ntries=0\n"
        assert len(data) == 1024 and data.startswith(begin), f"{name}.env is no block of GRUB's"


def test_failures_under_kvm(tmp_path):
    """The launcher ends well whatever its guest did: the guest's own words decide."""

    def complaint(job, output):
        done = command(
            "sh",
            "-euc",
            f'column=kvm measurements_top="{TOP}"; '
            f'. "{path("bench", "measurements.sh")}"; '
            f'. "{path("metal", "auto", "jobs.sh")}"; '
            f'complaint {job} "{put(tmp_path, "output", output.encode())}"',
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    good = "TAP version 13\r\nok 1 - measure\r\n1..1\r\nkvm: launcher_status=0\n"
    assert complaint("msr", good) == "", complaint("msr", good)
    assert complaint("msr", good.replace("ok 1", "not ok 1")) == "not ok 1 - measure"
    assert complaint("exit", good + 'Bail out! "why"\n') == "Bail out! why"
    assert "did not come to its end" in complaint("pmi", good.replace("1..1", ""))
    ended = "job: name=a1bench status=0\r\njob: name=kvm status=0\n"
    assert complaint("a1", ended) == "", complaint("a1", ended)
    assert complaint("a1", ended.replace("0\r", "3\r")) == "under KVM it ended with status 3"
    assert "did not come to its end" in complaint("nginx", ended)


def test_install_again(tmp_path):
    """Results of another build are put aside; without --auto the next boots measure nothing."""
    esp, folder = new_esp(tmp_path)
    files = (esp, made(image()), kernel(), made(initrd()))

    def install_build(version, *words):
        parts = put_parts(tmp_path / "parts", version.encode())
        done = command(path("metal", "install.sh"), "--bench", parts, *words, *files)
        assert done.returncode == 0, done.stderr
        return done.stdout, content(folder, "local.cfg")

    def put_results(text):
        for name in ("native/msr.txt", "native.txt", "native.ok"):
            put(os.path.join(folder, "bench"), name, text.encode())

    _, without = install_build("one")
    said, local = install_build("one", "--auto")
    assert b"set bench=auto" not in without
    assert local.startswith(without) and b"set bench=auto" in local
    assert "another build" not in said, said
    put_results("one")
    for number, version in (("", "two"), ("2", "three")):
        said, local = install_build(version)
        assert local == without, f"local.cfg: {local}"
        old = os.path.join(folder, f"bench.old{number}")
        assert f"Results of another build are now in {old}" in said, said
        assert sorted(os.listdir(old)) == ["build.txt", "native", "native.ok", "native.txt"]
        left = [name for name in os.listdir(os.path.join(folder, "bench")) if name.endswith(".ok")]
        assert not left and not os.listdir(os.path.join(folder, "bench", "native")), left
        put_results(version)
    assert "Results of another build" not in install_build("three")[0]
