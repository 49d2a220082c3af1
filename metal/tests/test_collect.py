# SPDX-License-Identifier: BSD-2-Clause
# test_collect.py: what metal/collect.py makes of what starts left on a made-up partition, and the
# file to send with which it ends: what it says of the file, and that no text of a machine comes
# into it as it is.
import os
import shutil

from bench import machine_file, results
from metal.collect import REASONS
from metal.tests.made_up import COLLECT, content, new_esp, path_with, put, put_whole
from tests.e2e.scripts import expect_line, run

LOG = "pmuvisor.log"

# What nobody wants to publish, and the places of a column's results where such words could come in.
PRIVATE = "PF3XK1Z9 alice-laptop 52:54:00:12:34:56 192.168.1.77 alice /home/alice/esp " \
    "4c4c4544-0042-3510 root=/dev/sda2 alice@example.org"  # fmt: skip
MACHINE = {
    "cpu": "Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz",
    "version": "packages-12-g303bd08e",
    "kernel": "6.1.0-56-amd64",
    "kvm": "of Linux 6.1.0-56-amd64 enable_pmu=Y enable_apicv=Y nmi_watchdog=0",
    "compiler": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
    "mitigations": "mitigations=off spectre_bhi=off",
    "date": "2026-11-28T13:47:10Z",
    "microcode": "0xf4",
    "bios": "LENOVO 08/29/2023",
    "apic": "xAPIC",
    "processors": "1",
    "turbo": "off",
    "frequency": "1992.000 MHz",
    "governor": "performance (intel_pstate, 400000 to 4000000 kHz, no_turbo=1)",
    "options": "policy=msr+nmi bookkeeping=all unblock=eager apic=pass",
}


def line(experiment, item):
    times = "metric=time unit=tsc n=30 min=20 median=25 p95=30"
    return f"bench: experiment={experiment} item={item} {times}\n"


def put_machine(folder, more=""):
    """Columns of a made-up machine; `more` follows each text that comes into the results."""
    said = "".join(f'env: {key}="{value}{more}"\n' for key, value in MACHINE.items())
    for name in ("native", "msr+nmi"):
        facts = f'env: kind="metal"\nenv: column="{name}"\nenv: tick="0"\n{said}'
        skip = f'bench: experiment=exit item=vmcall skip="no hypervisor{more}"\n'
        put_whole(folder, f"1.{name}.txt", facts + line("msr", "rdpmc") + skip + f"""
sample: job=profile number=1 seconds=2.1 smis=0 aperf_per_mperf=100.0 mperf_per_tsc=99.9
bench: experiment=profile item=plain metric=pmis unit=count value=4
bench: experiment=profile item=share_a{more.replace(' ', '/')} metric=pmis unit=count value=4
bench: experiment=profile item=profiled metric=pmis{more.replace(' ', '/')} unit=count value=4
end: column={name} status=0
""")  # fmt: skip
    put_whole(folder, "1.intercept.txt", f"""env: kind="metal"
{said}end: column=intercept status=1 why="it ended with status 3{more}"
""")  # fmt: skip


def sent(done, out):
    """(the file to send, as text; its results) of a collecting command."""
    file = os.path.join(out, "machine.json")
    found = machine_file.load(file)
    assert f"collect: {file}: the one file to send" in done.stdout, done.stdout
    return content(file).decode("ascii"), found


def test_collect_a_file_to_send(tmp_path):
    """make collect ends with one file, with what is in it, and with the words to send it with."""
    esp, folder = new_esp(tmp_path)
    out = str(tmp_path / "out")
    put_machine(folder)
    done = run(*COLLECT, esp, out)
    assert done.returncode == 1, done  # a column ended badly
    text, found = sent(done, out)
    assert text == content(out, "results.json").decode("ascii"), "known words were left out"
    said, letter = done.stdout.partition("Words for either:")[::2]
    for wanted in (
        "  processor: Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz\n",
        "  version of this project: packages-12-g303bd08e\n",
        "  columns: native, msr+nmi, with PMUvisor's options\n",
        "  figures: 8, of msr, profile\n",
        "  repetitions: 2\n",
        "  reasons why a figure is missing: 2\n",
        "make add-machine MACHINE=" + os.path.join(out, "machine.json"),
    ):
        assert wanted in said, said
    assert "Results of Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz, microcode 0xf4\n" in letter
    assert "left out" not in said and "/" not in letter, letter
    assert results.ok_columns(found) == ["native", "msr+nmi"]
    put(folder, "bench/1.native.txt", b"torn")
    put_whole(folder, "1.msr+nmi.txt", 'env: kind="emulator"\n' + line("msr", "rdpmc")
        + "end: column=msr+nmi status=0\n")  # fmt: skip
    os.unlink(os.path.join(folder, "bench", "1.intercept.txt"))
    done = run(*COLLECT, esp, out)
    assert 'no file to send: environment.kind: found "emulator"' in done.stdout, done
    assert "machine.json" not in os.listdir(out), "the file of other results is still there"


def test_collect_checks_the_estimate(tmp_path):
    """Before the files, make collect prints the estimate beside the measured cycles; if no column
    has both, one line."""
    esp, folder = new_esp(tmp_path)
    command = (*COLLECT, esp, str(tmp_path / "out"))
    put_machine(folder)
    said = run(*command).stdout.splitlines()
    assert [text for text in said if "estimate" in text] == [
        "No estimate stands beside the measured cycles: no column has both a time here and counts "
        "in results/."
    ], said
    facts = "".join(f'env: {key}="{value}"\n' for key, value in MACHINE.items())
    times = "metric=time unit=ns n=1 min={0} median={0} p95={0}"
    put_whole(folder, "1.native.txt", f"""env: kind="metal"
env: column="native"
{facts}{line("msr", "wrmsr_evtsel")}bench: experiment=a1 item=m200000 {times.format(100000)}
bench: experiment=a1 item=m100 {times.format(2100000)}
end: column=native status=0
""")  # fmt: skip
    said = run(*command).stdout
    table, files = said.split("collect: ", 1)
    rows = [row.split() for row in table.splitlines() if row.startswith("native")]
    # 2,000 ns at 1,992 MHz.
    assert [(row[1], row[-1]) for row in rows] == [("25", "NO"), ("3,984", "yes")], table
    assert "i7-8550U CPU @ 1.80GHz is not known to be a Skylake-SP" in table, table
    assert "machine.json: the one file to send" in files, files


def test_no_personal_data_is_sent(tmp_path):
    """Each text of the results has unknown words: none of them is in the file, and nothing else
    is missing."""
    esp, folder = new_esp(tmp_path)
    out = str(tmp_path / "out")
    put_machine(folder)
    run(*COLLECT, esp, out)
    clean = content(out, "machine.json").decode("ascii")
    put_machine(folder, f" {PRIVATE}")
    done = run(*COLLECT, esp, out)
    text, found = sent(done, out)
    local = content(out, "results.json").decode("ascii")
    for word in PRIVATE.split():
        assert local.count(word) > len(MACHINE), f"{word} never came into the results"
        assert word not in text, f"{word} is in the file: {text}"
    for value in MACHINE.values():
        assert value in text, f"{value} is not in the file"
    assert all(machine_file.known_why(why) == why for _, why in REASONS), REASONS
    # Cells whose names were changed are gone, reasons are others.
    assert (clean.count('"values"'), text.count('"values"')) == (8, 4), text
    assert (clean.count("no hypervisor"), text.count(machine_file.OTHER_WHY)) == (2, 3), text
    assert results.ok_columns(found) == ["native", "msr+nmi"]
    left = next(row for row in done.stdout.splitlines() if "left out, because" in row)
    for key in ("bios", "kvm", "frequency", "mitigations"):
        assert f"environment.{key}" in left, left
    assert "columns.msr+nmi.detail" in left and "columns.intercept.why" in left, left


def test_says_which_parts_lack(tmp_path):
    """Of the parts those of the plan: the menu has blocks of all of them."""
    esp, folder = new_esp(tmp_path)
    put_machine(folder)
    for name in ("1.abl_none.env", "1.mitigated.env"):
        put(folder, f"bench/{name}")
    put(folder, "bench/plan.cfg", b'# plan thesis\nset bench_plan="1.native 1.abl_none"\n')
    done = run(*COLLECT, esp, str(tmp_path / "out"))
    lacking = [text for text in done.stderr.splitlines() if "no results yet of these parts" in text]
    assert lacking == [
        "collect.py: no results yet of these parts or their columns: 1.abl_none"
    ], done.stderr


def test_parts_are_alike_or_left_out(tmp_path):
    """A part that was measured in another environment than its column does not come into the
    results; a pair with and without mitigations differs in those."""
    esp, folder = new_esp(tmp_path)
    put_machine(folder)
    facts = (
        'env: kind="metal"\nenv: column="msr+nmi"\nenv: turbo="{}"\nenv: root_mitigations="{}"\n'
    )
    for name, experiment, item, turbo, below in (
        ("abl_none", "ablation", "cpuid@none", "on", "off"),
        ("mitigated", "config", "exit.cpuid@mitigated", "off", "auto"),
    ):
        text = facts.format(turbo, below) + line(experiment, item)
        put_whole(folder, f"1.{name}.txt", f"{text}end: column=msr+nmi status=0\n")
    done = run(*COLLECT, esp, str(tmp_path / "out"))
    left = [text for text in done.stderr.splitlines() if "left out" in text]
    assert left == [
        "collect.py: left out, because it is not like its column, "
        "1.abl_none: turbo (turbo): 'on', the column's 'off'"
    ], done.stderr
    found = results.load(str(tmp_path / "out" / "results.json"))
    experiments = {entry["experiment"] for entry in found["measurements"]}
    assert "config" in experiments and "ablation" not in experiments, experiments


def test_a_failed_repetition_is_said(tmp_path):
    """A job that failed after others of its repetitions had figures: it may have found a fault."""
    esp, folder = new_esp(tmp_path)
    put_machine(folder)
    said = "".join(f'env: {key}="{value}"\n' for key, value in MACHINE.items())
    put_whole(folder, "2.native.txt", f"""env: kind="metal"
env: column="native"
{said}sample: job=pmi number=1 seconds=2.1
{line("pmi", "lvtpc_write")}failed: experiment=pmi item=lvtpc_write metric=time unit=tsc n=3
auto: job=pmi status=1 why="not ok 3 - an NMI was lost"
end: column=native status=0
""")  # fmt: skip
    done = run(*COLLECT, esp, str(tmp_path / "out"))
    wanted = 'collect.py: a run failed: 2.native job=pmi why="not ok 3 - an NMI was lost"'
    assert wanted in done.stderr.splitlines(), done.stderr


def test_collect_by_ssh(tmp_path):
    """make collect takes results and log, and no image, from a partition on another machine; if it
    cannot, one line says why."""
    esp, folder = new_esp(tmp_path)
    put(folder, LOG, b"the last words\n")
    put(folder, "vmlinuz", b"large")
    put(folder, "bench/initrd.img", b"large")
    out, host = str(tmp_path / "out"), f"root@there:{esp}"
    # In the place of ssh the command itself, on the same machine.
    script = f'[ "$1" = root@there ] || exit 9\ncd /; sh -c "$2" | tee {tmp_path}/sent\n'.encode()
    tools = path_with(tmp_path, "ssh", script)
    done = run(*COLLECT, host, out, PATH=tools)
    assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
    assert content(out, LOG) == b"the last words\n"
    sent = run("tar", "-tf", tmp_path / "sent").stdout.split()
    assert [name for name in sent if not name.endswith("/")] == [f"EFI/pmuvisor/{LOG}"], sent
    done = run(*COLLECT, f"{host}/absent", out, PATH=tools)
    expect_line(done, f"'{host}/absent' cannot be read by ssh", "No such file")
    silent = path_with(tmp_path / "other", "ssh", b"echo No route to host >&2; exit 255\n")
    expect_line(run(*COLLECT, host, out, PATH=silent), "No route to host")


def test_collect(tmp_path):
    """make collect takes the log along, whether anything was measured or not."""
    esp, folder = new_esp(tmp_path)
    out = str(tmp_path / "out")
    expect_line(run(*COLLECT, esp, out), "bench", "is not there")
    put(folder, LOG, b"the last words\n")
    done = run(*COLLECT, esp, out)
    assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
    assert content(out, LOG) == b"the last words\n"


def test_collect_a_part(tmp_path):
    """Whole columns, the whole jobs of others, parts of a column, and why a column has nothing."""
    esp, folder = new_esp(tmp_path)
    out = str(tmp_path / "out")

    for name in ("native", "msr+nmi", "kvm"):
        put_whole(folder, f"1.{name}/facts.txt", f'env: kind="metal"\nenv: column="{name}"\n')
        put_whole(folder, f"1.{name}/msr.txt", line("msr", "rdpmc"))
        put_whole(
            folder,
            f"1.{name}/exit.txt",
            line("exit", "cpuid"),
            torn="b0nch" if name == "kvm" else "",
        )
    whole = f'env: kind="metal"\n{line("msr", "rdpmc")}end: column=msr+nmi status=0\n'
    put_whole(folder, "1.msr+nmi.txt", whole)
    put_whole(
        folder, "1.abl_none.txt", f'{line("ablation", "cpuid@none")}end: column=msr+nmi status=0\n'
    )
    put_whole(folder, "plan.cfg", 'set bench_plan="1.native 1.msr 1.abl_none 1.abl_compiled_out"\n')
    put(folder, "bench/1.abl_compiled_out.env")
    put(folder, "bench/1.intercept.env", b"# GRUB Environment Block\ntries=1\nwhy=refused\n")
    done = run(*COLLECT, esp, out)
    assert done.returncode == 0 and done.stderr.count("\n") == 2, done
    assert "not all jobs are done yet of: 1.native 1.kvm\n" in done.stderr, done.stderr
    assert "parts or their columns: 1.abl_compiled_out\n" in done.stderr, done.stderr
    assert "column intercept: not run: it refused" in done.stdout, done.stdout
    assert "column msr: not run: no results yet\n" in done.stdout, done.stdout
    assert "column kvm-new: not run: the plan leaves it out\n" in done.stdout, done.stdout
    found = results.load(os.path.join(out, "results.json"))
    assert [(one["column"], one["item"]) for one in found["measurements"]] == [
        ("native", "rdpmc"),
        ("native", "cpuid"),
        ("kvm", "rdpmc"),
        ("msr+nmi", "rdpmc"),
        ("msr+nmi", "cpuid@none"),
    ]
    assert ("kvm", "exit") in [(one["column"], one["experiment"]) for one in found["skipped"]]
    assert b"Table 4.1" in content(out, "report.html")
    shutil.rmtree(os.path.join(folder, "bench"))
    os.mkdir(os.path.join(folder, "bench"))
    expect_line(run(*COLLECT, esp, out), "no column in", "results yet")
    assert sorted(os.listdir(out)) == ["report.html", "results.json"], "what was there is gone"
