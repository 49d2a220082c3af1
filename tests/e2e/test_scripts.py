# SPDX-License-Identifier: BSD-2-Clause
# test_scripts.py: the commands that a user types: what they accept, what they refuse and how they
# say so. No boot is made, but for the one that shows the time limit.
import glob
import os
import re
import shutil
import subprocess

import pytest

from testbed.boots import image as image_of
from testbed.boots import initrd, kernel
from testbed.machine import STATUS_LIMIT, STATUS_TEXT, STATUS_TIMEOUT, Skip, made, path, tree_files
from tests.e2e.scripts import expect_line, run, run_qemu


def test_make_help():
    """make help names the commands, and pages for more; a word that is no target gets a hint, a
    missing file make's own words."""
    text = run("make", "-s", "-C", path(), "help").stdout
    for target in ("run", "check", "lab", "unit", "install", "clean"):
        assert f"\n  make {target} " in text, f"make help does not name {target}: {text}"
    pages = re.findall(r"see (\S+)", text)
    assert pages and "included" not in text, text
    for page in pages:
        assert page.endswith(".md") and glob.glob(path(page.replace("NAME", "*"))), page
    expect_line(run("make", "-s", "-C", path(), "chekc"), "no target 'chekc'", "make help")


@pytest.mark.parametrize("target", ["install", "collect"])
def test_make_wants_esp(nothing, target):
    """Without an ESP, or with a wrong one: one line, before anything is installed."""
    for words, fragment in (([], "no ESP given"), (["ESP=/absent"], "/absent")):
        done = run("make", "-s", "-C", path(), target, *words, PATH=nothing)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
        assert done.returncode and len(lines) == 1 and fragment in lines[0], done.stderr


def test_ci_run(tmp_path):
    """.ci/run: the last lines before the sum name what failed in each part."""
    parts = {
        "test_tiny.py": "import pytest\n"
        "@pytest.fixture\ndef broken(): raise OSError('disk' * 30)\n"
        "def test_good(): pass\n"
        "def test_bad(): print('FAILED in its output'); assert not 'seen'\n"
        "def test_none(broken): pass\n",
        "make": f"#!/bin/sh\nexec /usr/bin/python3 -m pytest -c {path('pyproject.toml')} "
        f"--rootdir {tmp_path} {tmp_path}/test_tiny.py\n",
        "tests/__init__.py": "",
        "tests/e2e/__init__.py": "",
        "tests/e2e/distribution.py": "print(*range(1000, 1031), sep='\\n')\nraise SystemExit(2)\n",
    }
    for name, text in parts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(path(".ci", "run"), tmp_path / ".ci")
    done = run(tmp_path / ".ci" / "run", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1 and done.stdout.splitlines()[-28:] == [
        line
        for words in ("make check", "make check MORE=1")
        for line in (
            f".ci/run: exit status 1, wanted 0: {words}",
            "FAILED test_tiny.py::test_bad - AssertionError: assert not 'seen'",
            "ERROR test_tiny.py::test_none - OSError: " + "disk" * 30,
        )
    ] + [
        ".ci/run: exit status 2, wanted 0: "
        "/usr/bin/python3 -B -m tests.e2e.distribution 13 make short",
        *map(str, range(1011, 1031)),
        "1 passed, 5 failed",
    ], done.stdout


def test_short_help():
    """-h is --help, in all scripts that have that."""
    for names in (
        ["run-qemu.sh"],
        ["testbed", "run.sh"],
        ["testbed", "disk.sh"],
        ["metal", "install.sh"],
        ["metal", "usb.sh"],
        ["metal", "guard.sh"],
    ):
        short, long = (run(path(*names), word) for word in ("-h", "--help"))
        assert (short.returncode, short.stdout) == (0, long.stdout) and "usage" in long.stdout, (
            names,
            short,
        )


def test_make_run_refuses(nothing):
    """make run PERF= without PROGRAM: before anything is installed."""
    done = run("make", "-s", "-C", path(), "run", "PERF=stat", PATH=nothing)
    assert (
        done.returncode
        and "PERF=" in done.stderr.splitlines()[0]
        and "PROGRAM=" in done.stderr.splitlines()[0]
        and "install" not in done.stderr
    ), done.stderr


@pytest.mark.more
def test_make_unknown_variable(nothing):
    """A misspelt variable is refused before anything is installed; a variable that make, a makefile
    or a program knows is not."""
    for word in ("PROG=./mine", "program=./mine", "CONFIGS=a=1 b=2"):
        done = run("make", "-s", "-C", path(), "run", word, PATH=f"{nothing}:{os.environ['PATH']}")
        expect_line(done, f"no variable '{word.partition('=')[0]}'", "make help")
    known = [
        "CC=gcc",
        "BUILD=x",
        "V=1",
        "FULL=1",
        "FRESH=1",
        "DISTFILES=/x",
        "SHELL=/bin/sh",
        "T=a/b c",
    ]
    known += ["CONFIG=tick=0 policy=msr", "PROGRAM=./mine 3 4=5", "PERF=record -e a", "GUEST=stock"]
    assert run("make", "-n", "-C", path(), "run", *known).returncode == 0


def test_run_qemu_refuses():
    """run-qemu.sh: unknown options and bad values, each in one line."""
    image = made(image_of())
    expect_line(run_qemu("--colour", "blue"), "--colour", "--help")
    expect_line(run_qemu("--cpus"), "--cpus", "value")
    expect_line(run_qemu("--cpus", "none"), "--cpus none", "number")
    expect_line(run_qemu("--timeout", "0"), "--timeout 0", "number")
    expect_line(run_qemu("--backend", "xen"), "xen", "wanted auto, kvm or emulator")
    expect_line(run_qemu("--backend", "tcg", "--ledger", "x.json"), "--ledger", "emulator")
    expect_line(run_qemu("--backend", "emulator", "--efi", "/absent"), "/absent", "make")
    words = ["--backend", "emulator", "--efi", image]
    expect_line(
        run_qemu(*words, "--kernel", "/absent", "--initrd", image), "/absent", "cannot read"
    )
    expect_line(run_qemu("--backend", "tcg", "--disk", "/absent"), "--disk", "cannot read /absent")
    expect_line(run_qemu("--backend", "tcg", "--knob", "exit_paths on"), "--knob is the emulator's")
    expect_line(run_qemu("--backend", "tcg", "--files", "x"), "--files is the emulator's")
    expect_line(run_qemu("--backend", "emulator", "--perf", "stat"), "--perf", "--program")
    for program, word in (
        ("/absent 1", "no such file: '/absent'"),
        (path("README.md"), "README.md' is not executable"),
        ("/bin/ls", "-static"),
    ):
        expect_line(
            run_qemu(*words, "--kernel", image, "--initrd", image, "--program", program),
            "--program",
            word,
        )


@pytest.mark.parametrize(
    "config, fragments",
    [
        ("tick=0 tikc=5", ["unknown option 'tikc'", "wanted one of", " tick"]),
        ("policy", ["option policy has no value"]),
        ("policy=mrs+nmi", ["option policy: found 'mrs+nmi'", "intercept, msr, msr+nmi"]),
        ("bookkeeping=lost,skin", ["option bookkeeping: found 'skin'"]),
        ("tick=10001", ["option tick: found '10001'", "0 (no tick) to 10000"]),
    ],
)
def test_run_qemu_options(config, fragments):
    """An option that PMUvisor would refuse is refused before a disk is made."""
    expect_line(
        run_qemu("--backend", "emulator", "--timeout", "20", "--config", config), *fragments
    )


def test_pipes():
    """In a script with pipefail no pipe ends in grep -q, which leaves at the first match: the
    command before it then ends by SIGPIPE, and a match counts as none."""
    names = [name for name in tree_files() if name.endswith(".sh") or name == ".ci/run"]
    found = []
    for name in names:
        with open(path(name), encoding="utf-8") as source:
            text = source.read()
        if "pipefail" in text:
            found += [name for line in text.splitlines() if re.search(r"[^|]\| *grep -q", line)]
    assert not found, found
    assert "run-qemu.sh" in names or not names, names


@pytest.mark.parametrize("config", ["policy=intercept", "tick=0 policy=msr", "policy=msr+nmi", ""])
def test_run_qemu_entry(config):
    """The menu's entry that boots, whose title is on the console, is the policy's."""
    with open(path("run-qemu.sh"), encoding="utf-8") as source:
        choose = re.search(r"^choose_entry\(\) {.*?^}", source.read(), re.MULTILINE | re.DOTALL)[0]
    done = run(
        "bash",
        "-c",
        f"set -euo pipefail\n{choose}\nchoose_entry\necho $entry",
        **{"top": path(), "config": config, "native": "0"},
        **{name: "" for name in ("kernel", "initrd", "base_append", "append", "efi")},
    )
    assert done.stdout.split() == [config.partition("policy=")[2] or "msr+nmi"], done


def test_run_qemu_backend():
    """auto says which backend it takes and why; kvm without nested VMX is refused with reason."""
    made(image_of())
    probe = run_qemu("--probe")
    assert probe.stdout.strip() in ("kvm", "emulator"), probe.stdout
    lines = probe.stderr.splitlines()
    assert len(lines) == 1 and f"backend {probe.stdout.strip()}: " in lines[0], lines
    if probe.stdout.strip() == "kvm":
        raise Skip("KVM works here, so that its refusal cannot be seen")
    expect_line(run_qemu("--backend", "kvm"), "backend kvm cannot be used")


def test_run_qemu_without_vmx():
    """On a processor without VMX the reason is that, and nobody is asked to join a group or load a
    module."""
    with open("/proc/cpuinfo", encoding="ascii") as source:
        if " vmx" in source.read():
            raise Skip("this processor has VMX")
    # A user who may not open /dev/kvm, where this test is root.
    user = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if run(*user, "test", "-r", path("run-qemu.sh")).returncode != 0:
        raise Skip("no other user can read this tree")
    said = run(*user, path("run-qemu.sh"), "--probe").stderr
    assert "no VMX" in said and "usermod" not in said and "modprobe" not in said, said


def native_words(backend):
    """run-qemu.sh's words for the kernel without PMUvisor."""
    return ["--backend", backend, "--native", "--kernel", kernel(), "--initrd", made(initrd())]


@pytest.mark.more
def test_run_qemu_knob():
    """--knob adds a line to the knobs of the emulator, which refuses one that it does not know."""
    expect_line(
        run_qemu(*native_words("emulator"), "--knob", "pmi_skid 3", "--knob", "colour blue"),
        "knob in line 2",
        "'colour blue'",
    )


@pytest.mark.more
def test_run_qemu_serves(tmp_path):
    """--serve and --from: runs of one program with other arguments, each with its own ledger; the
    server ends with its script."""
    source, program, socket = tmp_path / "mine.c", tmp_path / "mine", tmp_path / "socket"
    source.write_text(
        "#include <stdio.h>\nint main(int c, char **v)"
        '{ for (int i = 1; i < c; i++) printf("arg %d: %s\\n", i, v[i]); return c > 3; }\n'
    )
    run("gcc", "-static", "-o", program, source)
    with subprocess.Popen(
        [
            path("run-qemu.sh"),
            "--backend",
            "emulator",
            "--program",
            f"{program} one",
            "--serve",
            socket,
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout.readline() == "ready\n"
        for arguments, failed in (("two", 0), ("two,three", 1)):
            ledger = tmp_path / arguments
            done = run_qemu(
                "--from", socket, "--append", f"pmv.args={arguments}", "--ledger", ledger
            )
            assert done.returncode == 0, done.stderr
            said = re.findall(r"^arg \d: (\w+)", done.stdout, re.MULTILINE)
            assert said == ["one", *arguments.split(",")], done.stdout[-500:]
            assert (
                f"init: done failed={failed}" in done.stdout
                and '"forked_at": 0' not in ledger.read_text()
            )
        server.terminate()
        server.wait()
        assert server.stdout.read() == "", "the server did not end"
    expect_line(run_qemu("--from", tmp_path / "absent"), "no server's socket", "--serve")
    expect_line(run_qemu("--from", socket, "--model", "corei7_icelake_u"), "--from", "--model")


@pytest.mark.more
def test_run_qemu_model():
    """--model: the guest sees that processor, and Linux is told what the emulator needs of it."""
    done = run_qemu(
        "--backend", "emulator", "--model", "sapphire_rapids", "--append", "pmv.run=cpuinfo"
    )
    assert done.returncode == 0 and "cpuinfo status=0" in done.stdout, (
        done.stderr or done.stdout[-500:]
    )
    expect_line(
        run_qemu("--backend", "tcg", "--model", "sapphire_rapids"), "--model is the emulator's"
    )


def test_disk_for_several_processors(tmp_path):
    """disk.sh --cpus puts the emulator's tables onto the disk; one without them is refused."""
    with_tables, without = tmp_path / "with.img", tmp_path / "without.img"
    words = [path("testbed", "disk.sh"), "--kernel", kernel()]
    assert run(*words, "--out", with_tables, "--cpus", "2").returncode == 0
    assert run(*words, "--out", without).returncode == 0
    found = run("mdir", "-b", "-i", with_tables, "::/EFI/acpi", MTOOLS_SKIP_CHECK="1")
    assert "apic.aml" in found.stdout, found
    expect_line(
        run(path("testbed", "run.sh"), "--cpus", "2", "--disk", without),
        "has no ACPI tables",
        "testbed/disk.sh --cpus 2",
    )
    # With them, or for one processor, it starts.
    for disk, cpus in ((with_tables, "2"), (without, "1")):
        assert (
            run(
                path("testbed", "run.sh"), "--cpus", cpus, "--limit", "1", "--disk", disk
            ).returncode
            == STATUS_LIMIT
        )


def test_server_that_died(tmp_path):
    """A server of boots whose machine died says what the emulator said."""
    disk, firmware = tmp_path / "disk.img", tmp_path / "firmware"
    disk.write_bytes(bytes(1 << 20))
    firmware.write_bytes(bytes(8 << 20))  # Bochs panics: its ROM has at most 4 MiB
    done = run(
        path("testbed", "run.sh"),
        "--serve",
        tmp_path / "socket",
        "--disk",
        disk,
        "--firmware",
        firmware,
    )
    expect_line(done, "the server ended: ", ">>PANIC<< ROM: ROM image too large")


@pytest.mark.more
def test_run_qemu_timeout():
    """A run that is not over in time ends with status 124."""
    done = run_qemu(*native_words("emulator"), "--timeout", "2")
    assert done.returncode == STATUS_TIMEOUT, f"exit status {done.returncode}: {done.stderr}"


@pytest.mark.more
@pytest.mark.parametrize("backend", ["emulator", "tcg"])
def test_run_qemu_panic(lab, backend):
    """A panic of the guest's kernel ends the run at once, with a line that says so."""
    words = [*native_words(backend), "--append", "rdinit=/absent", "--timeout", "600"]
    boot = lab.watch(f"run-qemu-panic-{backend}", [path("run-qemu.sh"), *words])
    assert boot.status == STATUS_TEXT, f"exit status {boot.status}: {boot.errors}"
    assert boot.errors.splitlines()[-1] == "run-qemu.sh: the guest's kernel panicked", boot.errors
    assert "---[ end Kernel panic" in boot.console, boot.last_line()


def test_disk_refuses():
    """disk.sh: missing files and impossible command lines, each in one line."""
    disk = path("testbed", "disk.sh")
    expect_line(run(disk), "--out")
    expect_line(run(disk, "--out", "x.img", "--kernel", "/absent"), "/absent")
    expect_line(
        run(disk, "--out", "x.img", "--kernel", kernel(), "--append", "it's"), "single quote"
    )


def test_deps():
    """deps.sh: silent when all is there, an unknown group is refused."""
    done = run(path("testbed", "deps.sh"), "build", "run", "check")
    assert done.returncode == 0 and not done.stdout and not done.stderr, done
    expect_line(run(path("testbed", "deps.sh"), "games"), "games", "wanted one of")


@pytest.fixture(name="nothing")
def without_packages(tmp_path):
    """A PATH on which nothing is installed, and apt-get says what it was told, or what it would
    take."""
    cost = (
        "0 upgraded, 269 newly installed, 0 to remove.\nNeed to get 431 MB of archives.\n"
        "After this operation, 1402 MB of additional disk space will be used.\n"
    )
    for name, does in (
        ("dpkg-query", "true"),
        ("id", "echo 0"),
        ("apt-get", f'case "$*" in *assume-no*) printf "{cost}";; *) echo "$*";; esac'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def at_terminal(command):
    """The words that run a command at a terminal, by util-linux."""
    return ["script", "-qec", command, "/dev/null"]


def answered(words, answer, commands):
    """Runs a command with this PATH, and answers its question."""
    return subprocess.run(
        words,
        text=True,
        check=False,
        input=f"{answer}\n",
        capture_output=True,
        cwd=path(),
        env={**os.environ, "PATH": commands},
    )


@pytest.mark.more
@pytest.mark.parametrize(
    "answer, installs", [("y", True), ("n", False), ("", False), (None, False)]
)
def test_make_docs_asks(nothing, answer, installs):
    """make docs installs nothing unless somebody at the terminal says so; None: there is no
    terminal."""
    command = path(run("make", "-s", "-n", "-C", path(), "docs").stdout.splitlines()[0])
    if answer is None:
        expect_line(run("sh", "-c", command, PATH=nothing), "nobody is here to ask", "graphviz")
        return
    done = answered(at_terminal(command), answer, nothing)
    assert (
        "install graphviz (269 newly installed, 431 MB to fetch, 1402 MB on the disk)? [y/N]"
        in done.stdout
    ), done
    assert ("install -y --no-install-recommends graphviz" in done.stdout) == installs, done
    assert (done.returncode == 0) == installs, done


def test_deps_asks_for_all(nothing):
    """deps.sh on a machine that has nothing: every package of the groups, of all their lines."""
    done = run(path("testbed", "deps.sh"), "run", "kvm", "check", PATH=nothing)
    asked = done.stderr.splitlines()[-1].split()
    assert asked.count("ovmf") == asked.count("qemu-system-x86") == 1, f"named twice: {asked}"
    for package in (
        "ovmf",
        "ca-certificates",
        "libcmocka-dev",
        "qemu-system-x86",
        "spin",
        "cppcheck",
        "chromium-driver",
    ):
        assert package in asked, f"{package} is not among {asked}"


def test_deps_says_the_cost(nothing):
    """deps.sh: how many packages and how large, before the first one is installed."""
    done = run(path("testbed", "deps.sh"), "run", PATH=nothing)
    said, installs = done.stderr.splitlines()
    for word in ("269 newly installed", "431 MB", "1402 MB", "ovmf"):
        assert word in said, f"'{word}' is not in: {said}"
    assert "install -y" in installs, done


@pytest.mark.more
@pytest.mark.parametrize("terminal", [True, False])
def test_make_check_asks(nothing, terminal):
    """make check asks before it installs where somebody is at a terminal; elsewhere it says what it
    does."""
    command = path(run("make", "-s", "-n", "-C", path(), "check").stdout.splitlines()[0])
    done = answered(at_terminal(command) if terminal else ["sh", "-c", command], "n", nothing)
    said = done.stdout + done.stderr
    assert ("[y/N]" in said) == terminal and ("install -y" in said) != terminal, said
    assert "1402 MB" in said, said


def test_kernel_flavour():
    """kernel.sh: an unknown flavour is refused."""
    expect_line(run(path("programs", "kernel.sh"), "huge"), "huge", "cloud, stock or rt")


def test_image_size():
    """pmuvisor.efi has at most 160 KiB (EFI_SIZE_MAX of the Makefile)."""
    size = os.path.getsize(made(image_of()))
    assert 0 < size <= 160 * 1024, f"{size} bytes"
    return f"{size} bytes"
