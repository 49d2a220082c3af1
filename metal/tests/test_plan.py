# SPDX-License-Identifier: BSD-2-Clause
# test_plan.py: the arithmetic of a plan of minutes on a bare machine (metal/auto/plan.sh): which
# starts it has and what each may take; and what the columns' facts say. The shell functions run as
# they are, by busybox's awk as well. No boot is made.
import glob
import os
import re

import pytest

from bench import columns
from bench.measurements import ALIKE, ALL
from metal.tests.made_up import put
from testbed.machine import TOP, path
from tests.e2e.scripts import run

BUSYBOX = sorted(
    glob.glob(os.path.expanduser("~/.cache/pmuvisor/packages/*/*/bin/busybox"))
    + glob.glob(os.path.expanduser("~/.cache/pmuvisor/packages/*/*/usr/bin/busybox"))
)
SEED = "0f1e2d3c4b5a6978"
SIX = ("native:16", "kvm:16", "kvm-mediated:16", "thesis:16", "msr+nmi:16")
THESIS = (*SIX, "abl_compiled_out:2", "abl_none:2")
MOST, LEAST_MS = 8, 4000


def shell(script, **environment):
    done = run("sh", "-euc", script, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plan_of(seconds, overhead, *more, begun=1, seed=SEED, awk=None, tmp_path=None, names=THESIS):
    """(rounds, a share's ms, starts)"""
    environment = {}
    if awk:
        put(str(tmp_path), "awk", f'#!/bin/sh\nexec {awk} awk "$@"\n'.encode(), 0o755)
        environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    words = [MOST, LEAST_MS, seconds, overhead, begun, seed, "native", *names, *more]
    said = shell(
        f". '{path('metal', 'auto', 'plan.sh')}'; echo '{' '.join(map(str, words))}' | plan_starts",
        **environment,
    ).split()
    return int(said[0]), int(said[1]), said[2:]


def cost(rounds, share, overhead, once=0):
    """What that takes, in seconds, where the first start's firmware has been."""
    jobs = sum(max(int(name.partition(":")[2]) * share / 1000, once) for name in THESIS)
    return rounds * (len(THESIS) * overhead + jobs) - overhead


@pytest.mark.parametrize(
    "overhead, rounds", [(20, 7), (45, 5), (90, 3), (200, 2), (300, 1), (450, 1)]
)
def test_rounds_follow_from_the_firmware(overhead, rounds):
    """Of an hour: the slower the firmware the fewer rounds, and what is left is all given away."""
    found, share, starts = plan_of(3600, overhead)
    assert (found, len(starts)) == (rounds, rounds * len(THESIS))
    assert share >= LEAST_MS or rounds == 1
    assert 3550 < cost(found, share, overhead) <= 3600
    assert found == MOST or cost(found + 1, LEAST_MS / 1000 * 1000, overhead) > 3600


def test_no_time():
    """One round is begun even where there is no time for it; what has begun is ended."""
    assert plan_of(500, 300)[:2] == (1, 0)
    assert plan_of(500, 300, begun=3)[0] == 3
    assert plan_of(0, 90)[0] == MOST, "a plan without minutes"


def test_orders():
    """Each column once in each round; the rounds' orders differ, and are the seed's alone."""
    starts = plan_of(0, 90)[2]
    rounds = [starts[at : at + len(THESIS)] for at in range(0, len(starts), len(THESIS))]
    names = sorted(name.partition(":")[0] for name in THESIS)
    for number, some in enumerate(rounds, 1):
        assert sorted(start.partition(".")[2] for start in some) == names
        assert {start.partition(".")[0] for start in some} == {str(number)}
    assert starts[0] == "1.native", "the start that plans is not the first"
    assert len({tuple(s.partition(".")[2] for s in some) for some in rounds}) == len(rounds)
    first = {some[0].partition(".")[2] for some in rounds[1:]}
    assert len(first) > 2, f"rounds begin with {first}"
    assert plan_of(0, 90)[2] == starts and plan_of(0, 90, seed=SEED[::-1])[2] != starts
    # With less time the same rounds come first: what is done stays in the plan.
    assert starts[: 3 * len(THESIS)] == plan_of(3600, 90)[2]


def test_what_is_done_and_what_cannot_be(tmp_path):
    """Done starts and columns that do not start have no share. What one run of each job takes
    counts where it is more than the shares are."""
    done = [f"-1.{name.partition(':')[0]}" for name in THESIS]
    rounds, share, _ = plan_of(2700, 45, *done, begun=2)
    left = ((rounds - 1) * len(THESIS) - 1) * 45 + (rounds - 1) * 84 * share / 1000
    assert 2690 < left <= 2700, "what is left is not divided among the starts that are left"
    bad = plan_of(2700, 45, *done, "!kvm", "!kvm-mediated", begun=2)
    assert bad[0] > rounds and "4.kvm" in bad[2], "the plan's starts are not the machine's"
    slow = plan_of(2700, 45, *done, *(f"+{name.partition(':')[0]}:250000" for name in SIX), begun=2)
    assert slow[0] == 2 and 2 * 2 * slow[1] < 2700_000 - 5 * 250_000
    assert plan_of(2700, 45, *done, "+kvm:300000", begun=2)[0] < rounds
    assert BUSYBOX, "no busybox: make build/payload/auto-cloud.img"
    same = plan_of(3600, 45, awk=BUSYBOX[0], tmp_path=tmp_path)
    assert same == plan_of(3600, 45)


SOURCES = (
    "bench/measurements.sh",
    *(f"metal/auto/{name}.sh" for name in ("jobs", "facts", "plan")),
)
# auto.sh's own functions, and a machine that does not answer.
AROUND = """
measurements_top={top}; bench={bench}; column={column}; start=2.{column}; plan=thesis
command_line="{words}"; place=3
word() {{
    found=$2
    for each in $command_line; do case $each in "$1"=*) found=${{each#*=}} ;; esac; done
    echo "$found"
}}
read_msr() {{ :; }}
whole() {{ [ -s "$1" ]; }}
column_name=$(column_of "$column")
"""
OUTPUT = (
    "kvm: release=6.1 enable_apicv=Y nested=Y halt_poll_ns=200000\r\n"
    "launch: guest_apic=xAPIC\r\nlaunch: large_pages={}%\r\n"
)


def facts_of(column, words, work, pages=100):
    sources = "".join(f". '{path(*name.split('/'))}'; " for name in SOURCES)
    around = AROUND.format(top=TOP, bench=work, column=column, words=words)
    output = put(work, "output", OUTPUT.format(pages).encode())
    put(work, "build.txt")
    # As in auto.sh, a fact that this machine does not have ends nothing.
    script = f"{sources}{around}\nset +e\nprint_facts; ! is_kvm || kvm_facts '{output}'"
    found = re.findall('^env: ([a-z_]+)="([^"]*)"$', shell(script.replace("\r", "")), re.MULTILINE)
    return dict(found)


def words_of(column):
    """Those of the boot menu."""
    menu = shell(f"'{path('testbed', 'menu.sh')}'").split(f'"$1" = {column} ]')[1].split("elif")[0]
    found = dict(re.findall('column_([a-z]+)="([^"]*)"', menu))
    options = f"pmv.options={found['record']}" if "record" in found else ""
    return f"{found.get('words', '')} {options} spectre_bhi=off"


@pytest.fixture(scope="module")
def all_facts(tmp_path_factory):
    work = str(tmp_path_factory.mktemp("facts"))
    names = (*columns.NAMES, "mitigated", "kvm_mitigated", "kvm-mediated_mitigated")
    return {name: facts_of(name, words_of(name), work) for name in names}


def test_each_column_says_what_must_be_alike(all_facts):
    """Each key of [alike] is among the facts of each column; only KVM has its own."""
    for name, facts in all_facts.items():
        kvm = name.startswith("kvm")
        wanted = {key for key in ALIKE if kvm or not key.startswith("kvm_")}
        assert wanted <= set(facts), f"{name} lacks {wanted - set(facts)}"
        assert facts["round"] == "2" and facts["position"] == "3"
        assert facts["column"] == name.replace("_mitigated", "").replace("mitigated", "msr+nmi")


def test_mitigations_are_alike(all_facts, tmp_path):
    """Below the measured Linux they are off in each column and on in each twin. Its own are those
    that it has natively."""
    for name, facts in all_facts.items():
        assert facts["mitigations"] == "spectre_bhi=off", (name, facts["mitigations"])
        below = {"native": ""}.get(name, "auto" if "mitigated" in name else "off")
        assert facts["root_mitigations"] == below, name
    # As it was: KVM's Linux without words of its own.
    assert facts_of("kvm", "spectre_bhi=off", str(tmp_path))["root_mitigations"] == "auto"


def test_pages_are_said(all_facts, tmp_path):
    assert all_facts["native"]["ept_pages"] == ""
    large = {all_facts[name]["ept_pages"] for name in ("kvm", "kvm-new", "msr+nmi", "thesis")}
    assert len(large) == 1, large
    assert facts_of("kvm", "", str(tmp_path), pages=40)["ept_pages"] == "40 % of 2 MiB"


def lines_of(column, job, output, work):
    sources = "".join(f". '{path(*name.split('/'))}'; " for name in SOURCES)
    around = AROUND.format(top=TOP, bench=work, column=column, words="")
    script = f"{sources}{around}\njob_lines {column} {job} '{put(work, 'output', output.encode())}'"
    return shell(script).splitlines()


def test_parts_and_configurations_are_items_of_their_tables(tmp_path):
    """The lines of a job in the start of a part or a twin have the emulator's names."""
    said = (
        "bench: experiment=exit item=empty_rax ops=9 metric=time unit=tsc value=1\n"
        "bench: experiment=exit item=cpuid base=empty_rax ops=9 metric=time unit=tsc value=5\n"
        "bench: experiment=exit item=inl_passed base=empty_rax ops=9 metric=time unit=tsc value=5\n"
    )
    work = str(tmp_path)
    for column, experiment, item in (
        ("abl_none", "ablation", "{}@none"),
        ("kvm_mitigated", "config", "exit.{}@kvm_mitigated"),
    ):
        found = lines_of(column, "exit", said, work)
        names = [re.search(r"experiment=(\S+) item=(\S+)", line).groups() for line in found]
        assert names == [(experiment, item.format(one)) for one in ("empty_rax", "cpuid")], found
        assert f"base={item.format('empty_rax')} " in found[1]
    assert lines_of("msr+nmi", "exit", said, work) == said.splitlines()
    config = {item.experiment for item in ALL.items_in("config")}
    sources = "".join(f". '{path(*name.split('/'))}'; " for name in SOURCES)
    jobs = shell(
        sources
        + AROUND.format(top=TOP, bench=work, column="mitigated", words="")
        + "jobs_of_column abl_none; echo; jobs_of_column mitigated; echo; own_part; "
        + "column=msr+nmi; own_part"
    ).split("\n\n")
    assert jobs[0] == "exit" and set(jobs[1].split()) == config and jobs[2].split() == ["abl_all"]


# GRUB's commands for bash, which reads the rest of its language.
GRUB = r"""
set() { eval "${1%%=*}=\${1#*=}"; }
regexp() { eval "${1#--set=1:}=\$(printf '%s' \"\$3\" | sed -nE 's/$2/\1/p')"; }
load_env() {
    head -n 1 "$2" 2> /dev/null | grep -q '^# GRUB Environment Block' || return 1
    eval "$(grep -E '^(tries|why)=' "$2")"
}
"""
BLOCK = "# GRUB Environment Block\ntries={}\nwhy={}\n"


def choice(work, columns_wanted=""):
    """(the start that the menu takes next, what it says when there is none)."""
    with open(path("metal", "bench.cfg"), encoding="ascii") as source:
        text = source.read()
    part = text[text.index("# Without a plan") : text.index("# test_kernel NAME")]
    script = put(work, "script", f'{GRUB}\nbench=thesis\ncolumns="native kvm msr+nmi"\n'.encode())
    with open(script, "a", encoding="ascii") as out:
        out.write(f'bench_columns="{columns_wanted}"\nbench_dir="{work}"\n')
        out.write(part.replace("sleep 5", ":") + '\necho "next=$bench_next $bench_next_column"\n')
    done = run("bash", script)
    # Of a torn plan GRUB takes what bash takes: no assignment.
    return re.search("^next=(.*)$", done.stdout, re.MULTILINE)[1].strip(), done.stdout


def test_menu_chooses_the_next_start(tmp_path):
    """Without a plan, or with a torn one, the first column; else the plan's first start without
    results. A column that does not start is left out of later rounds."""
    work = str(tmp_path)
    names = [f"{number}.{name}" for number in (1, 2) for name in ("native", "kvm", "msr+nmi")]
    for name in names:
        put(work, f"{name}.env", BLOCK.format(0, "").encode())
    assert choice(work)[0] == "1.native native"
    assert choice(work, "msr+nmi native")[0] == "1.msr+nmi msr+nmi"
    plan = (
        f'# plan thesis\nset bench_plan="{" ".join([*names[:3], *names[:2:-1]])}"\n# check: md5=0\n'
    )
    put(work, "plan.cfg", plan[:40].encode())
    put(work, "1.native.ok")
    assert choice(work)[0] == "1.native native", "the torn plan is not mended"
    put(work, "plan.cfg", plan.encode())
    assert choice(work)[0] == "1.kvm kvm"
    put(work, "1.kvm.env", BLOCK.format(1, "refused").encode())
    put(work, "1.msr+nmi.ok")
    put(work, "2.msr+nmi.env", b"torn")
    chosen, said = choice(work)
    assert chosen == "2.native native" and "complete" not in said, said
    put(work, "2.native.ok")
    chosen, said = choice(work)
    assert chosen == "" and "Without results: 1.kvm 2.msr+nmi 2.kvm" in said, said


def test_menu_is_grubs_language(tmp_path):
    put(str(tmp_path), "columns.cfg", shell(f"'{path('testbed', 'menu.sh')}'").encode())
    for name in (path("testbed", "grub.cfg"), path("metal", "bench.cfg"), tmp_path / "columns.cfg"):
        done = run("grub-script-check", str(name))
        assert done.returncode == 0, f"{name}: {done.stderr}"


CLOCK = """
. '{plan}'; bench='{work}'; share={share} start_shares=16
word() {{ echo "$2"; }}; whole() {{ [ -s "$1" ]; }}; keep() {{ cat > "$bench/$1"; }}
now() {{ echo {now}; }}; seconds_up() {{ echo {up}; }}; read_msr() {{ echo {tsc}; }}
dmesg() {{ echo 'tsc: Detected 2000.000 MHz processor'; }}
read_clock; echo "$used $post $((boots / starts)) $post_known"; write_clock {clean}
"""


def clock(work, now, up, clean=1, tsc=0, share=4000):
    """A start that looks at its clock, and writes it: (used, firmware's and Linux's seconds, how
    the firmware's are known)."""
    values = {"now": now, "up": up, "clean": clean, "tsc": tsc, "share": share}
    script = CLOCK.format(plan=path("metal", "auto", "plan.sh"), work=work, **values)
    used, post, boot, known = shell(script).strip().split(" ", 3)
    return int(used), int(post), int(boot), known


def test_clock(tmp_path):
    """Firmware's time is the TSC's before the first restart and the clock's after it. A cut counts
    what it cost, and a night in which the machine was off does not."""
    work = str(tmp_path)
    assert clock(work, 1000, 10, tsc=2_000_000_000 * 55) == (55, 45, 10, "by the TSC")
    assert clock(work, 1200, 20) == (55 + 200, 180, 15, "measured at the last restart")
    # Cut in the middle: the time is that of the start that was lost, and firmware is as it was.
    assert clock(work, 1400, 15, clean=0)[:2] == (455, 185)
    assert clock(work, 1600, 15)[:2] == (655, 185)
    assert clock(work, 1800, 15, clean=0)[:2] == (855, 185)
    assert clock(work, 99_000, 15)[:2] == (855 + 185 + 15, 185), "a night counts"
    assert clock(work, 500, 15)[:2] == (855 + 2 * (185 + 15), 185), "a clock that was set back"
    # Cut while it was written: an empty file, as FAT has it then.
    put(work, "clock.txt")
    assert clock(work, 700, 15)[0] == 855 + 2 * (185 + 15) + 200, "the used time was forgotten"


def test_clock_without_a_tsc(tmp_path):
    """Where the TSC did not begin at the reset the firmware's time is assumed."""
    assert clock(str(tmp_path), 1000, 10, tsc=2_000_000_000 * 99_999) == (100, 90, 10, "assumed")


FOLLOW = """
{sources}{around}
set +e
whole() {{ [ -s "$1" ]; }}; keep() {{ cat > "$bench/$1"; }}; say() {{ echo "auto: $*"; }}
writable() {{ :; }}; read_only() {{ :; }}; now() {{ echo 1000; }}; env_block_bytes=1024
empty_block() {{ head -c 1024 /dev/zero; }}; restart() {{ say "$*"; exit 0; }}
start={start} used={used} at=1000 post=30 post_known=assumed boots=10 starts=1
follow_plan
"""


def follow(work, start, used, minutes=60):
    """What a start of the plan `thesis` says of it after so many seconds."""
    put(work, "id", SEED.encode())
    sources = "".join(f". '{path(*name.split('/'))}'; " for name in SOURCES)
    words = f"pmv.plan=thesis pmv.minutes={minutes}"
    around = AROUND.format(top=TOP, bench=work, column=start.partition(".")[2], words=words)
    return shell(FOLLOW.format(sources=sources, around=around, start=start, used=used))


def test_more_than_planned_is_said(tmp_path):
    """Each start says so when the minutes cannot be kept to, also when the plan stays as it is."""
    work = str(tmp_path)
    assert "more than planned" not in follow(work, "1.native", 40)
    assert "auto: plan thesis: 60 minutes" in follow(work, "1.native", 3300), "no new plan is said"
    said = follow(work, "1.native", 3590)
    assert said.startswith("auto: plan thesis: it will take more than planned"), said
    for wrong in ("1h", "060"):
        said = follow(work, "1.native", 40, minutes=wrong)
        assert said.startswith(f"auto: pmv.minutes={wrong} (bench_minutes=): wanted a number"), said


def test_a_torn_block_is_made_anew(tmp_path):
    """The power may be cut while the first start makes the blocks: the menu leaves out a column
    whose block is torn. One that has counted is kept."""
    work = str(tmp_path)
    put(work, "2.kvm.env", b"# GRUB")
    put(work, "1.kvm.env", BLOCK.format(1, "").encode().ljust(1024, b"#"))
    follow(work, "1.native", 40)
    sizes = {os.path.getsize(name) for name in glob.glob(f"{work}/*.env")}
    assert sizes == {1024}, sizes
    with open(f"{work}/1.kvm.env", "rb") as source:
        assert b"tries=1" in source.read(), "what the menu counted is gone"


GIVE_UP = """
start={start} column={column} bench='{work}' share=0
say() {{ :; }}; keep() {{ cat > "$bench/$1"; }}; whole() {{ [ -s "$1" ]; }}
job_left_out() {{ echo "bench: experiment=$1 item=all skip=\\"$2\\""; }}
touch_file() {{ echo began; exit 0; }}
do_job exit 1 1
"""


def test_a_job_that_was_given_up_stays_so(tmp_path):
    """A job that took the machine down twice is begun in no later round of the same column: each
    time would cost two restarts."""
    work = str(tmp_path)
    with open(path("metal", "auto", "auto.sh"), encoding="ascii") as source:
        text = source.read()
    functions = text[text.index("# Why attempt N left nothing") : text.index("put_together() {")]

    def again(start):
        os.makedirs(os.path.join(work, start), exist_ok=True)
        column = start.partition(".")[2]
        return shell(functions + GIVE_UP.format(start=start, column=column, work=work))

    put(work, "1.kvm/exit.1", b"it did not end in 100 s\n")
    assert again("1.kvm") == "began\n", "there was no second attempt"
    put(work, "1.kvm/exit.2")
    assert again("1.kvm") == "" and again("2.kvm") == "", "it was begun once more"
    with open(os.path.join(work, "2.kvm", "exit.txt"), encoding="ascii") as source:
        assert 'skip="begun twice: first it did not end in 100 s, then the' in source.read()
    assert again("2.native") == "began\n", "another column's job was left out"
    for attempt in (1, 2):
        put(work, f"1.native/exit.{attempt}")
    assert again("1.native") == ""
    assert again("2.native") == "began\n", "two cuts of the power left it out of all rounds"
