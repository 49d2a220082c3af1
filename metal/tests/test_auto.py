# SPDX-License-Identifier: BSD-2-Clause
# test_auto.py: measuring on a bare machine, from power-on to the report: an EFI system partition as
# `make install` fills it, on the emulator's disk; the machine resets itself from start to start and
# is cut from its power on the way. All chains are for FULL=1; without it, only what needs none.
import hashlib
import os
import random
import re
import shutil
import tempfile
import time

import pytest

from bench import columns as table
from bench import results as results_file
from bench.measurements import ALIKE, ALL
from metal.tests.auto_disk import make_disk, put_on, read_console, read_folder, run, run_once
from metal.tests.made_up import append, complaints, content, make, mtools, new_esp, put, put_parts
from metal.tests.test_check import MACHINES
from testbed.boots import image, initrd, kernel
from testbed.machine import STATUS_POWEROFF, TOP, made, path
from tests.e2e.machines import ALDER_LAKE, ALDER_LAKE_MODEL
from tests.e2e.scripts import expect_line
from tests.e2e.scripts import run as command

pytestmark = pytest.mark.more

PLAN = dict(word.split("=", 1) for word in ALL.sections["plans"]["thesis"].split())
NAMES, PARTS = PLAN["columns"].split(","), PLAN["parts"].split(",")
JOBS = [job.partition(":")[0] for job in PLAN["jobs"].split(",")]
# Short: this is about the way, not the figures. Two rounds have room in it.
MINUTES = 55
WORDS = (
    "pmv.runs=3 pmv.operations=100 pmv.a1_runs=1 pmv.iter=1000000 pmv.nginx_ms=1000 "
    "pmv.profile_runs=1 pmv.nginx_runs=1"
)
# The power goes so many millions of instructions after the line, at moments of a seed.
SEED, CUTS = 51, 3
CUT_AT, CUT_AFTER = "auto: results go to", (2_000, 25_000)
TORN = "bench/plan.cfg"
# A processor that counts its SMIs, and had three before anybody looked; a second of its TSC is one
# of the machine's clock.
KNOBS = "msr 0x34 3\ntsc_hz 50000000\n"
PLANNED = re.compile(r"auto: plan thesis: (\d+) minutes, \d+ used; rounds of 7 columns: (\d+)")
PROGRESS = re.compile(
    r"auto: column (\d+) of 7, job (\d) of (\d), round (\d) of \d, (\d+) minutes left: "
    r"column (\S+), job (\S+)"
)


class Chain:
    """What the way left: consoles of all runs, and the partition after each."""

    def __init__(self):
        self.consoles, self.folders, self.status = [], [], None
        self.seconds = 0

    def console(self):
        return "\n".join(self.consoles)

    def starts(self):
        """Those in the plan."""
        text = self.folders[-1]["bench/plan.cfg"].decode()
        return re.search('^set bench_plan="(.*)"$', text, re.MULTILINE)[1].split()


def whole(data):
    """A file of results that is not torn has its own sum in its last line."""
    text, mark, found = data.rpartition(b"check: md5=")
    text = text.removesuffix(b"# ")
    return bool(mark) and found.decode().strip() == hashlib.md5(text).hexdigest()


def chain(lab):
    def measure():
        found, started, moments = Chain(), time.monotonic(), random.Random(SEED)
        cuts = [(CUT_AT, moments.randrange(*CUT_AFTER)) for _ in range(CUTS)]
        with tempfile.TemporaryDirectory(prefix="pmuvisor-auto.") as work:
            disk, knobs = make_disk(work, "", WORDS, KNOBS, plan="thesis", minutes=MINUTES)
            for number, cut in enumerate([*cuts, None]):
                console_file = os.path.join(lab.keep, f"auto{number}.console")
                found.status = run(disk, knobs, work, console_file, cut)
                found.consoles.append(read_console(console_file))
                found.folders.append(read_folder(disk, work, number))
                if found.status is not None:
                    break
                if number == 0:
                    # As a cut in the middle of its writing would leave it.
                    put_on(disk, work, TORN, found.folders[0][TORN].decode()[:60])
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
    """Each start of the plan is a boot of its own, and the machine goes off after the last."""
    found = chain(lab)
    assert (
        len(found.consoles) == CUTS + 1
    ), f"run {len(found.consoles)} ended with status {found.status} before its power was cut"
    assert (
        found.status == STATUS_POWEROFF
    ), f"exit status {found.status}, last line: {found.consoles[-1].strip().splitlines()[-1:]}"
    console, starts = found.console(), found.starts()
    rounds = {start.partition(".")[0] for start in starts}
    assert len(rounds) >= 2 and len(starts) == len(rounds) * len(NAMES + PARTS), starts
    ended = re.findall(r"^auto: start=(\S+) done$", console, re.MULTILINE)
    assert [start for start in dict.fromkeys(ended) if start in starts] == starts, ended
    assert "Without results" not in console, "a column was given up"
    failed = re.findall(r"auto: start=\S+ job=\S+ status=[1-9]\d*.*", console)
    assert not failed, f"jobs: {failed}"
    complete = "Measurements complete: the results are in EFI/pmuvisor/bench."
    assert complete in console[-1000:], "the menu does not say that all is complete"
    return f"{len(starts)} starts, {CUTS} power cuts, {found.seconds:.0f} s"


@pytest.mark.full
def test_minutes_are_kept_to(lab):
    """The plan's minutes are said before the first job. They agree with what the plan's clock says
    at the end, and with the time between resets. Each job says where the plan is."""
    found = chain(lab)
    console = found.console()
    plans = [(int(match[1]), match.start()) for match in PLANNED.finditer(console)]
    assert {minutes for minutes, _ in plans} == {MINUTES} and plans[0][1] < console.find(" job=")
    used = int(re.findall(rf"auto: (\d+) of {MINUTES} minutes are used", console)[-1])
    assert abs(used - MINUTES) <= 0.15 * MINUTES, f"{used} minutes are used"
    clock = dict(
        line.split("=", 1)
        for line in found.folders[-1]["bench/clock.txt"].decode().split("\n")[:-2]
    )
    ups = [
        float(text) for text in re.findall(r"\[ *(\d+\.\d+)\] reboot: Restarting system", console)
    ]
    between = (sum(ups) + len(ups) * int(clock["post"])) / 60
    assert (
        abs(between - used) <= 0.15 * used
    ), f"{used} minutes by the clock, {between:.1f} by resets"
    said = PROGRESS.findall(console)
    assert len(said) >= len(found.starts()), said
    for place, job, jobs, round_number, left, name, what in said:
        assert f"{round_number}.{name}" in found.starts() and what in JOBS
        of_round = [one for one in found.starts() if one.startswith(f"{round_number}.")]
        assert of_round.index(f"{round_number}.{name}") == int(place) - 1
        assert int(job) <= int(jobs) and int(left) <= MINUTES
    return f"{used} of {MINUTES} minutes, {len(said)} jobs"


@pytest.mark.full
def test_power_cut_loses_nothing(lab):
    """What was finished before a cut is there after it, byte for byte, and is not run again. A torn
    plan is written again, with the same starts."""
    found = chain(lab)
    finished = 0
    for number in range(CUTS):
        before, after = found.folders[number], found.folders[number + 1]
        for name, data in before.items():
            if not whole(data) or name in (TORN, "bench/clock.txt", "bench/clock2.txt"):
                continue
            finished += 1
            assert after.get(name) == data, f"{name} was lost or changed after cut {number + 1}"
            start, _, job = name.removeprefix("bench/").removesuffix(".txt").partition("/")
            again = f"start={start} job={job} attempt"
            assert not job or again not in found.consoles[number + 1], f"{name} was run again"
    assert finished > 0, "nothing was finished before the cuts: they prove nothing"
    assert PLANNED.search(found.consoles[1]), "the torn plan was taken as it was"
    assert whole(found.folders[-1][TORN])
    first = found.folders[0][TORN].decode().split('"')[1].split()
    known = [start for start in found.starts() if start in first]
    assert known == first[: len(known)] and len(known) >= len(NAMES + PARTS), (first, known)
    return f"{finished} finished files before {CUTS} cuts, all as they were"


def collected(done, out):
    """(results, report) that a collecting command left in this folder."""
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    return (
        results_file.load(os.path.join(out, "results.json")),
        content(out, "report.html").decode(),
    )


@pytest.mark.full
def test_report(lab, tmp_path):
    """make collect: results.json with every column, and the report. The columns are alike, and the
    rows of Table 4.3 differ where the thesis's do."""
    found, out = chain(lab), str(tmp_path)
    results, report = collected(make("collect", f"ESP={found.esp}", f"COLLECT_OUT={out}"), out)
    for number in range(1, 8):
        assert f"Table 4.{number}" in report, f"the report has no Table 4.{number}"
    environment = results["environment"]
    different = {
        key: environment[key] for key in ALIKE if results_file.of_columns(environment[key])
    }
    assert not different, different
    assert environment["apic"].endswith("xAPIC") and "x2APIC" not in environment["apic"]
    assert results["tool"]["version"], "nothing says which version this was"
    detail = results["columns"]["thesis"]["detail"]
    assert "policy=msr+nmi apic=trap bookkeeping=all unblock=eager" in detail, detail
    assert "enable_mediated_pmu=Y" in environment["kvm"], environment["kvm"]
    states = {name: results["columns"][name]["status"] for name in NAMES}
    assert set(states.values()) == {"ok"}, f"columns: {states}"
    value = {
        (m["column"], m["experiment"], m["item"]): m["value"]
        for m in results["measurements"]
        if m["metric"] == "time"
    }
    there = {(m["column"], m["experiment"]) for m in results["measurements"]}
    assert {(name, experiment) for name in NAMES for experiment in JOBS} <= there, there
    read = {name: value[name, "msr", "rdmsr_evtsel"] for name in NAMES}
    # The emulator's TSC counts instructions: RDMSR itself, and what a hypervisor adds.
    assert read["native"] == read["msr+nmi"] == read["thesis"] == 1, read
    assert read["kvm"] > 100, f"RDMSR of EVTSEL by the module in Linux: {read}"
    rows = {
        (item, variant): value["msr+nmi", "ablation", f"{item}@{variant}"]
        for item in ("cpuid", "vmcall", "inl", "outl", "cpuid_blocked")
        for variant in ("compiled_out", "none", "all")
    }
    for item in ("cpuid", "vmcall", "inl", "outl"):
        assert rows[item, "compiled_out"] < rows[item, "none"] <= rows[item, "all"], rows
    assert rows["cpuid_blocked", "all"] > rows["cpuid_blocked", "none"], rows
    return f"{len(results['measurements'])} measurements; CPUID: {rows}"


@pytest.mark.full
def test_samples(lab):
    """Each repetition says its time, SMIs and clocks, in the text of its start."""
    found, count = chain(lab), 0
    for start in found.starts():
        text = found.folders[-1][f"bench/{start}.txt"].decode()
        round_number, _, name = start.partition(".")
        assert f'env: round="{round_number}"\n' in text and 'env: position="' in text
        said = re.findall(
            r"^sample: job=(\S+) number=(\d+) seconds=(\S+) smis=(\d+) aperf_per_mperf=(\S+) "
            r"mperf_per_tsc=(\S+)$",
            text,
            re.MULTILINE,
        )
        wanted = [name] if name in PARTS else JOBS
        assert list(dict.fromkeys(job for job, *_ in said)) == wanted, (start, said)
        for _, number, seconds, smis, aperf, mperf in said:
            assert int(number) >= 1 and float(seconds) > 0 and smis == "0"
            # The emulator's two counters are one, read one after the other.
            assert 99 < float(aperf) < 101 and 0 < float(mperf) <= 100.1
        count += len(said)
    return f"{count} repetitions"


@pytest.mark.full
def test_trouble_does_not_stop_the_chain(lab):
    """A hypervisor that refuses to start and a job that took the machine down twice are left out,
    and said so; the others are measured, with what the processor did besides."""

    def begun_twice(disk, work):
        put_on(disk, work, "bench/1.native/exit.1", "it did not end in 1000 s\n")
        put_on(disk, work, "bench/1.native/exit.2", "")

    words = "pmv.jobs=msr,exit,pmi pmv.runs=1 pmv.operations=10"
    knobs = "hide_feature vmx\n" + KNOBS
    status, kept, console = run_once(
        lab, "refused", "intercept native", words, knobs, change=begun_twice
    )
    assert status == STATUS_POWEROFF, f"exit status {status}"
    assert console.count("PMUvisor refuses to start") == 1, "PMUvisor was started again, or not"
    assert "Without results: 1.intercept" in console, "the menu does not say what is missing"
    assert "bench/1.native.ok" in kept and "bench/1.intercept.ok" not in kept, sorted(kept)
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
        assert wanted in kept["bench/1.native.txt"].decode(), f"1.native.txt has no '{wanted}'"
    assert "job=exit attempt" not in console, "a job was begun a third time"


@pytest.mark.full
def test_model_that_perf_does_not_know(lab):
    """The screen and the results say so. The thesis's program has its figures. Precise samples
    fail, and the results say why."""
    words = "pmv.jobs=a1,pebs pmv.a1_runs=1"
    knobs = MACHINES["new-model"]["knobs"] + "pebs 4\n"
    status, kept, console = run_once(lab, "new-model", "native msr+nmi", words, knobs)
    assert status == STATUS_POWEROFF, f"exit status {status}"
    lacks = "perf of this Linux does not know this processor's model (generic_arch_v5+)"
    assert console.count(f"auto: {lacks}") == 2, console[-600:]
    for name in ("native", "msr+nmi"):
        text = kept[f"bench/1.{name}.txt"].decode()
        assert f"\n{lacks}" in text and "experiment=a1 item=m100 " in text, text
        assert "PMU Hardware doesn't support sampling" in text, text
        assert 'experiment=pebs item=all skip="it ended with status 1"' in text, text


@pytest.mark.full
def test_iret_of_an_smi(lab):
    """Firmware's SMI handler executes IRET while root mode handles an NMI, and another one comes.
    PMUvisor reports this and resets the machine. The job is begun once more, and the log is kept.
    """
    words = "pmv.jobs=exit pmv.runs=3 pmv.operations=10"
    nmi = "nmi_root reason=18 exits=30 position="  # the job's VMCALLs
    knobs = f"{nmi}5\n{nmi}15 unblocked\n"
    status, kept, console = run_once(lab, "smi", "msr+nmi", words, knobs)
    assert status == STATUS_POWEROFF, f"exit status {status}"
    at = 0
    for said in (
        "start=1.msr+nmi job=exit attempt=1",
        "an NMI interrupted the NMI handler, at image offset 0x",
        "the last run's log is in pmuvisor.log",
        "start=1.msr+nmi job=exit attempt=2",
        "start=1.msr+nmi job=exit status=0 kept",
        "Measurements complete",
    ):
        at = console.find(said, at)
        assert at >= 0, f"no '{said}' after the one before: {console[-600:]}"
    assert "bench/1.msr+nmi.ok" in kept, sorted(kept)


@pytest.mark.full
def test_no_partition(lab):
    """The kernel finds no partition that it came from, as without a driver for its disk. It says so
    and restarts, and the menu gives the column up after the second time."""
    words = "pmv.jobs=exit pmv.runs=1 pmv.operations=10"

    def other_id(disk, work):
        put_on(disk, work, "bench/id", "another")

    status, kept, console = run_once(lab, "no-partition", "native", words, change=other_id)
    assert status == STATUS_POWEROFF, f"exit status {status}"
    said = "auto: no EFI system partition with EFI/pmuvisor/bench found in 30 s"
    assert console.count(said) == 2 and "Without results: 1.native" in console, console[-600:]
    assert "bench/1.native.ok" not in kept, sorted(kept)


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
        text = kept[f"bench/1.{name}.txt"].decode()
        assert 'env: processors="2, jobs on mask 1"' in text, f"{name}: {text[:600]}"
        assert re.search(r'^env: cpu=".+, cpu_core"$', text, re.MULTILINE), f"{name}: {text[:600]}"
        assert "experiment=exit item=cpuid " in text and "item=all skip=" not in text, text


def test_install(tmp_path):
    """install.sh --bench: what it refuses, in one line; a second time keeps edits and results."""
    script, parts = path("metal", "install.sh"), tmp_path / "parts"
    esp, folder = new_esp(tmp_path)
    files = (esp, made(image()), kernel(), made(initrd()))
    expect_line(command(script, "--fast", *files), "--fast", "wanted --bench or --plan")
    expect_line(command(script, "--plan", "all", *files), "--plan wants --bench")
    parts.mkdir()
    done = command(script, "--bench", parts, *files)
    expect_line(done, "vmlinuz", "make build/auto/stock/build.txt")
    for word, wanted in (
        ("fast", "wanted thesis, all or none"),
        ("auto", "is called BENCH=all now"),
    ):
        said = complaints(make("-s", "install", f"ESP={esp}", f"BENCH={word}"))
        assert len(said) == 1 and f"BENCH={word}" in said[0] and wanted in said[0], said
    put_parts(parts)
    done = command(script, "--bench", parts, "--plan", "fast", *files)
    expect_line(done, "--plan: found 'fast', wanted one of: thesis all")
    for _ in range(2):
        done = command(script, "--bench", parts, "--plan", "thesis", *files)
        assert done.returncode == 0, done.stderr
        for name in ("local.cfg", "bench/1.native.txt"):
            append(os.path.join(folder, name), b"# mine\n")
        assert len(content(folder, "bench", "id")) > 8, "no identity of this partition"
    text = content(folder, "local.cfg")
    assert text.count(b"# mine") == 2 and text.count(b"set bench=thesis") == 1, text
    assert content(folder, "bench", "1.native.txt") == b"# mine\n" * 2
    assert content(folder, "no_bookkeeping.efi") == b"no_bookkeeping.efi"
    assert content(folder, "bench", "initrd-new.img") == b"initrd-new.img"
    for name in (*table.COLUMNS, *PARTS, "kvm_mitigated"):
        data = content(folder, "bench", f"1.{name}.env")
        begin = b"# GRUB Environment Block\ntries=0\n"
        assert len(data) == 1024 and data.startswith(begin), f"{name}.env is no block of GRUB's"


def test_failures_under_kvm(tmp_path):
    """The launcher ends well whatever its guest did: the guest's own words decide."""

    def complaint(job, output, column="kvm"):
        done = command(
            "sh",
            "-euc",
            f'column={column} measurements_top="{TOP}"; '
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
    for column in ("kvm-mediated", "kvm_mitigated"):
        assert "did not come to its end" in complaint("nginx", ended, column)


REMARK = b"# Measure, until every column has its results.\n"


def test_install_again(tmp_path):
    """Results of another build or plan are put aside. Without --plan the next boots measure
    nothing."""
    esp, folder = new_esp(tmp_path)
    files = (esp, made(image()), kernel(), made(initrd()))

    def install_build(version, *words):
        parts = put_parts(tmp_path / "parts", version.encode())
        done = command(path("metal", "install.sh"), "--bench", parts, *words, *files)
        assert done.returncode == 0, done.stderr
        return done.stdout, content(folder, "local.cfg")

    def put_results(text):
        for name in ("1.native/msr.txt", "2.native.txt", "2.native.ok"):
            put(os.path.join(folder, "bench"), name, text.encode())
        put(os.path.join(folder, "bench"), "plan.cfg", b"# plan thesis\n")

    _, without = install_build("one")
    # As it was called before.
    append(os.path.join(folder, "local.cfg"), REMARK + b"set bench=auto\n")
    said, local = install_build("one", "--plan", "thesis")
    assert b"set bench=" not in without
    assert local == without + REMARK + b"set bench=thesis\n", local
    assert "another build" not in said, said
    put_results("one")
    for number, version in (("", "two"), ("2", "three")):
        said, local = install_build(version)
        assert local == without, f"local.cfg: {local}"
        old = os.path.join(folder, f"bench.old{number}")
        assert f"Results of another build or plan are now in {old}" in said, said
        names = ["1.native", "2.native.ok", "2.native.txt", "build.txt"]
        assert sorted(os.listdir(old)) == names
        assert not os.path.exists(os.path.join(folder, "bench", "plan.cfg"))
        left = [name for name in os.listdir(os.path.join(folder, "bench")) if name.endswith(".ok")]
        assert not left and not os.listdir(os.path.join(folder, "bench", "1.native")), left
        put_results(version)
    assert "Results of another build" not in install_build("three")[0]
    assert "Results of another build" not in install_build("three", "--plan", "thesis")[0]
    assert "bench.old3" in install_build("three", "--plan", "all")[0], "two plans in one set"
