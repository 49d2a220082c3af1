# SPDX-License-Identifier: BSD-2-Clause
# test_dumps.py: pmuvisor-check on dumps: of real machines, by public listings, each of which names
# its source; of the emulator, whole and with one thing changed; damaged ones.
import functools
import glob
import os
import random
import re
import struct
import subprocess

import pytest

from metal.tests import made_up
from testbed.machine import made, path
from tests.e2e import scripts

BOOTS, BOOTS_WITHOUT, REFUSES, NOT_KNOWN, NOT_ASKED = range(5)
LOCKED = "IA32_FEATURE_CONTROL: has firmware locked VMX off?"
FLIPS, CUTS, MANY = 200, 60, 112
DUMPS = path("metal", "tests", "dumps")

# Real machines: status, and what the verdict or the log has to say. No listing but the two of
# VirtualBox's has IA32_FEATURE_CONTROL.
ALL_LISTS = "GLOBAL_CTRL: MSR-load and MSR-store lists"
STORE_LIST = "GLOBAL_CTRL: VMCS load controls and the exit MSR-store list"
BOTH = "GLOBAL_CTRL: VMCS load and save controls"
MACHINES = {
    "harpertown": (REFUSES, '"enable EPT" is missing'),
    "westmere-gulftown": (NOT_KNOWN, ALL_LISTS),  # the erratum: has_global_ctrl_erratum()
    "sandy-bridge-e": (NOT_KNOWN, STORE_LIST),
    "ivy-bridge": (NOT_KNOWN, STORE_LIST),
    "haswell-ep": (NOT_KNOWN, STORE_LIST),
    "avoton": (NOT_KNOWN, STORE_LIST),
    "broadwell-e": (NOT_KNOWN, STORE_LIST),
    "skylake-client": (BOOTS_WITHOUT, STORE_LIST),
    "skylake-sp": (NOT_KNOWN, STORE_LIST),
    "cascade-lake-sp": (NOT_KNOWN, STORE_LIST),
    "ice-lake-sp": (NOT_KNOWN, STORE_LIST),
    "sapphire-rapids": (NOT_KNOWN, BOTH),
    "emerald-rapids": (NOT_KNOWN, BOTH),
    "granite-rapids": (NOT_KNOWN, BOTH),
    "alder-lake": (NOT_KNOWN, BOTH),
    "raptor-lake": (NOT_KNOWN, BOTH),
    "arrow-lake": (NOT_KNOWN, BOTH),
    "lunar-lake": (NOT_KNOWN, BOTH),
}


def run(*arguments):
    """(status, stdout, stderr); a signal is a failure."""
    program = made("build/pmuvisor-check")
    done = scripts.run(program, *arguments)
    assert done.returncode in range(NOT_ASKED + 1), f"status {done.returncode}: {done.stderr}"
    return done.returncode, done.stdout, done.stderr


def dump(name):
    return os.path.join(DUMPS, f"{name}.dump")


def text_of(name):
    return made_up.content(dump(name)).decode("ascii")


def emulator():
    return text_of("emulator")


def judge(tmp_path, text, *arguments):
    """The verdict of such a dump: (status, all that is said)."""
    file = tmp_path / "changed.dump"
    file.write_text(text, encoding="latin-1")
    status, out, err = run("--from", str(file), *arguments)
    assert (status == NOT_ASKED) == (err != ""), err
    return status, out + err


def with_line(text, line):
    return text.replace("cpu 0\n", f"{line}\ncpu 0\n", 1)


def with_msr(text, index, value):
    """On each processor, or on those where it differs from the first one's."""
    changed, count = re.subn(
        rf"^msr {index:08x} \S+$", f"msr {index:08x} {value}", text, flags=re.MULTILINE
    )
    assert count, f"the dump has no MSR {index:#x}"
    return changed


def with_table(text, signature, content):
    """The dump with this table in the place of its own, or none (empty)."""
    text = re.sub(rf"^table {signature} \d+\n(\+ .*\n)+", "", text, flags=re.MULTILINE)
    lines = [f"table {signature} {len(content)}"] if content else []
    lines += ["+ " + content[i : i + 32].hex() for i in range(0, len(content), 32)]
    return with_line(text, "\n".join(lines)) if lines else text


def table(text, signature):
    found = re.search(rf"^table {signature} \d+\n((\+ .*\n)+)", text, re.MULTILINE)
    return bytearray.fromhex(found[1].replace("+", ""))


def sealed(content):
    content[9] = 0
    content[9] = -sum(content) & 0xFF
    return content


def madt(text, apic_ids):
    """The MADT with these processors alone."""
    head = table(text, "APIC")[:44]
    for apic_id in apic_ids:
        head += struct.pack("<BBBBI", 0, 8, apic_id, apic_id, 1)
    struct.pack_into("<I", head, 4, len(head))
    return sealed(head)


def dmar(base):
    body = struct.pack("<BB10xHHBBHQ", 38, 0, 0, 16, 1, 0, 0, base)
    header = (b"DMAR", 36 + len(body), 1, 0, b"PMUV", b"TESTBED", 1, b"INTL", 1)
    return sealed(bytearray(struct.pack("<4sIBB6s8sI4sI", *header) + body))


# ---- real machines ----


@pytest.mark.parametrize("name", MACHINES)
def test_machine(name):
    """Its verdict, and how its PMU would be switched; what the listing lacks is named."""
    status, said = MACHINES[name]
    found, log, _ = run("--from", dump(name), "--log")
    _, verdict, _ = run("--from", dump(name))
    assert found == status, verdict
    assert said in log + verdict, log + verdict
    assert "the ACPI table DMAR: can DMA be contained?" in verdict, verdict
    assert (LOCKED in verdict) == (status == NOT_KNOWN), verdict
    assert "https://github.com/" in verdict, "the listing's source is not named"
    count = len(re.findall(r"^cpu \d", text_of(name), re.MULTILINE))
    assert count == 1 or f"pmuvisor: {count} of {count} processors are under VMX" in log, log
    return f"{count} processors"


# The kinds, by leaf 1AH.
HYBRID = {
    "alder-lake": "0-1 Core, native model 1; 16 Atom, native model 1; 0 measures",
    "raptor-lake": "0-1 Core, native model 1; 16 Atom, native model 1; 0 measures",
    "arrow-lake": "0-1 Core, native model 3; 2 Atom, native model 3; 0 measures",
    "lunar-lake": "0-1 Core, native model 3; 4 Atom, native model 3; 0 measures",
}


@pytest.mark.parametrize("name", MACHINES)
def test_kinds(name):
    """A hybrid machine's processors by their kinds; another machine has no such line."""
    _, verdict, _ = run("--from", dump(name))
    said = re.findall(r"^  kinds: (.*)$", verdict, re.MULTILINE)
    assert said == [HYBRID[name]] if name in HYBRID else said == [], verdict


def test_many_processors(tmp_path):
    """As many as the machine has, where the dump has two of those that differ in their APIC IDs."""
    text = text_of("emerald-rapids").removesuffix("end\n")
    second = text[text.index("cpu 1\n") :]
    for number in range(2, MANY):
        text += (
            second.replace("cpu 1\n", f"cpu {number}\n")
            .replace(" 01800800 ", f" {number:02x}800800 ")
            .replace(" 00000001\n", f" {number:08x}\n")
        )
    _, log = judge(tmp_path, text + "end\n", "--log")
    assert f"pmuvisor: {MANY} of {MANY} processors are under VMX" in log, log


def test_all_machines():
    """No dump is without a test, and there are ten real ones."""
    names = {os.path.basename(file)[:-5] for file in glob.glob(os.path.join(DUMPS, "*.dump"))}
    assert names == set(MACHINES) | {"emulator"} and len(MACHINES) >= 10


def test_locked_known(tmp_path):
    """What a listing lacks is what keeps it from a verdict: with it there is one."""
    text = text_of("sapphire-rapids")
    status, said = judge(tmp_path, text.replace("cpu 0\n", "cpu 0\nmsr 0000003a 5\n", 1))
    assert status in (BOOTS, BOOTS_WITHOUT), said
    status, said = judge(tmp_path, text.replace("cpu 0\n", "cpu 0\nmsr 0000003a 1\n", 1))
    assert status == REFUSES and "VMX is locked off by firmware" in said, said


# ---- one thing changed ----

# Functions that return a change: a function from a dump to another one.


def swap(old, new):
    return lambda text: text.replace(old, new, 1)


def lines(*added):
    return lambda text: with_line(text, "\n".join(added))


def sub(pattern, new=""):
    return lambda text: re.sub(pattern, new, text, flags=re.MULTILINE)


def msr(index, value):
    return lambda text: with_msr(text, index, value)


def acpi(signature, content):
    """`content` is a function of the dump."""
    return lambda text: with_table(text, signature, content(text))


def unit(cap="00c0070c222f0406", ecap="f020df"):
    """A VT-d unit with these capabilities."""
    return both(lines(f"vtd {UNIT:x} {cap} {ecap}"), DMAR)


def both(*changes):
    return lambda text: functools.reduce(lambda changed, change: change(changed), changes, text)


UNIT = 0xFED90000
DMAR = acpi("DMAR", lambda _: dmar(UNIT))
NO_VMX = sub(r"^(cpuid 00000001 00000000 \w+ \w+) \w+", r"\1 00000000")
ONE_PROCESSOR = sub(r"^cpu 1\n(.+\n)*?(?=end)")
SECURE = swap("secure_boot off", "secure_boot on")
X2APIC = msr(0x1B, "00000000fee00d00")  # IA32_APIC_BASE
REMAPPING = swap("remapping off", "remapping on")
OPTIONS = {"bad-option": "policy=fast"}
# Name: the change, the status, what is said (! not).
CHANGES = {
    "whole": (both(), BOOTS_WITHOUT, "DMA is not contained: firmware reports no VT-d"),
    "no-vmx": (NO_VMX, REFUSES, "this processor shows no VMX"),
    "bad-option": (both(), REFUSES, "found 'fast'"),
    "bad-config": (lines("config apic=often"), REFUSES, "pmuvisor.cfg: option apic: found 'often'"),
    "config": (lines("config tick=0", "config apic=trap"), BOOTS_WITHOUT, "local APIC trapped"),
    "secure-boot": (SECURE, REFUSES, "Secure Boot is on", "sign the image"),
    "unsigned": (both(SECURE, lines("image_signed off")), REFUSES, "Secure Boot is on"),
    "signed": (
        both(SECURE, lines("image_signed on")),
        NOT_KNOWN,
        "does this machine know the key of the installed image?",
        "!turn it off",
    ),
    "signed-for-nothing": (lines("image_signed on"), BOOTS_WITHOUT, "!Secure Boot"),
    "old-line": (lines("framebuffer 80000000 300000 400 300 400"), BOOTS_WITHOUT),
    "little-memory": (
        sub(r"^memory \w+ \w+ System RAM\n"),
        REFUSES,
        "memory for the hypervisor: found 0 KiB",
    ),
    "dead-processor": (
        ONE_PROCESSOR,
        BOOTS_WITHOUT,
        "processor 1 did not start",
        "1 of 2 processors",
    ),
    "offline": (
        both(swap("offline 0", "offline 1"), ONE_PROCESSOR),
        BOOTS_WITHOUT,
        "processors that are not online in Linux",
        "!did not start",
        "!1 of 2",
    ),
    "small-core": (
        swap("cpu 1\n", "cpu 1\nmsr 0000048c 0000000006114141\n"),
        BOOTS_WITHOUT,
        "processor 1 cannot be used and is hidden",
        "1 of 2",
    ),
    "no-wait-for-sipi": (
        msr(0x485, "00000000600400e0"),
        REFUSES,
        "the wait-for-SIPI activity state is missing",
    ),
    "no-monitor-trap-flag": (
        msr(0x48E, "d7f9fbfe04006172"),
        REFUSES,
        '"monitor trap flag" is missing',
    ),
    "madt-damaged": (
        acpi("APIC", lambda text: table(text, "APIC")[:-1] + b"\x55"),
        BOOTS_WITHOUT,
        "DMA is not contained",
    ),
    "no-way-to-hide": (
        acpi("APIC", lambda text: madt(text, (2, 3))),
        REFUSES,
        "stops after it has left firmware: guest: found",
    ),
    "no-dsdt": (acpi("DSDT", lambda _: b""), BOOTS_WITHOUT, "define no \\_S5"),
    "unit": (unit(), BOOTS, "DMA contained by 1 VT-d units, 4 levels, the EPT's tables"),
    "unit-3-levels": (
        unit(cap="00c0070c22260206"),
        BOOTS,
        "DMA contained by 1 VT-d units, 3 levels",
    ),
    "unit-no-queue": (
        unit(ecap="f020dd"),
        BOOTS_WITHOUT,
        "wanted tables of 3 or 4 levels and queued invalidation",
    ),
    "unit-remapping": (
        both(X2APIC, swap("x2apic off", "x2apic on"), REMAPPING, unit()),
        BOOTS_WITHOUT,
        "the guest itself needs VT-d",
    ),
    "linux-x2apic": (both(X2APIC, REMAPPING, unit()), BOOTS, "DMA contained by 1"),
    "log-lost": (
        both(X2APIC, swap("x2apic off", "x2apic unknown"), unit()),
        BOOTS,
        "did firmware turn them on, or Linux?",
        "!DMA contained",
    ),
    "unit-not-told": (DMAR, BOOTS, "the capabilities of the VT-d units"),
    "msr-fault": (msr(0x480, "fault"), NOT_KNOWN, "MSR 0x480, which cannot be read"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(tmp_path, name):
    """The image's own sentence for it."""
    change, wanted, *words = CHANGES[name]
    text = change(emulator())
    assert name in ("whole", "bad-option") or text != emulator(), "nothing was changed"
    arguments = ["--options", OPTIONS[name]] if name in OPTIONS else []
    status, verdict = judge(tmp_path, text, *arguments)
    assert status == wanted, verdict
    log = judge(tmp_path, text, "--log", *arguments)[1]
    for word in words:
        assert (word.strip("!") in verdict + log) == (word[0] != "!"), verdict + log
    brief = judge(tmp_path, text, "--brief", *arguments)[1]
    assert brief.count("\n") == 1 and brief.endswith("\n"), brief


# ---- what is not told ----


def test_missing_leaf(tmp_path):
    """Without a leaf or an MSR that decides: not known, by its name; never a guess."""
    for line, name in (
        ("cpuid 00000001 00000000", "CPUID leaf 0x1"),
        ("cpuid 0000000a 00000000", "CPUID leaf 0xa"),
        ("cpuid 80000008 00000000", "CPUID leaf 0x80000008"),
        ("msr 00000480", "MSR 0x480"),
        ("msr 0000048b", "MSR 0x48b"),
        ("msr 0000048c", "MSR 0x48c"),
        ("msr 0000048e", "MSR 0x48e"),
        ("msr 0000003a", LOCKED),
    ):
        text, count = re.subn(rf"^{line} .*\n", "", emulator(), flags=re.MULTILINE)
        assert count, line
        status, said = judge(tmp_path, text)
        assert status == NOT_KNOWN and f"  {name}\n" in said, f"{line}: {said}"
        brief = judge(tmp_path, text, "--brief")[1]
        assert brief == f"not known whether PMUvisor boots: {name}\n", brief


def test_missing_detail(tmp_path):
    """Without one that takes only something away: a verdict, without the line that needs it."""
    for line, name, gone in (
        ("msr 000000fe", "the MTRRs", "EPT maps"),
        ("msr 000001a0", "MSR 0x1a0", "tick every"),
    ):
        text, _ = re.subn(rf"^{line} .*\n", "", emulator(), flags=re.MULTILINE)
        status, said = judge(tmp_path, text)
        assert status == BOOTS_WITHOUT and f"  {name}\n" in said, said
        log = judge(tmp_path, text, "--log", "--options", "tick=100")[1]
        assert gone not in log and "VMX controls needed, all there" in log, log


# ---- damaged dumps ----


def expect_line(status, said):
    """No verdict, and one line that says what, where and what to do."""
    assert status == NOT_ASKED, said
    assert said.count("\n") == 1 and "changed.dump:" in said and "found" in said, said
    assert "wanted" in said and "; make the dump again" in said, said


DAMAGES = {
    "empty": lambda t: "",
    "other-version": swap("dump 1", "dump 2"),
    "no-end": swap("end\n", ""),
    "after-end": lambda t: t + "cpu 7\n",
    "cpu-twice": swap("cpu 1\n", "cpu 0\n"),
    "no-cpu-line": swap("cpu 0\n", ""),
    "bad-cpu": swap("cpu 0\n", "cpu -1\n"),
    "no-cpu": lambda t: "pmuvisor-check dump 1\nend\n",
    "bad-digit": swap("msr 00000480 ", "msr 00000480 z"),
    "long-number": swap("msr 00000480 ", "msr 00000480 1"),
    "no-index": swap("msr 00000480 ", "msr "),
    "odd-digits": swap("+ ", "+ 0"),
    "bad-byte": swap("+ ", "+ gg"),
    "bytes-missing": lambda t: re.sub(r"\+ .*\n", "", t, count=1),
    "table-longer": swap("table APIC ", "table APIC 9"),
    "bytes-too-many": swap("+ ", "+ 00"),
    "bad-signature": swap("table APIC ", "table API "),
    "table-empty": lines("table ABCD 0"),
    "bytes-alone": lines("+ 00"),
    "memory-backwards": lines("memory 2 1 Reserved"),
    "memory-kind": lines("memory 1 2"),
    "unit-short": lines("vtd 1 2"),
    "tsc-text": swap("tsc_khz 50000", "tsc_khz fast"),
    "offline-text": lines("offline some"),
    "x2apic-text": lines("x2apic maybe"),
    "unknown-word": lines("colour blue"),
    "long-line": lines("fact " + "x" * 5000),
    "zero-byte": lines("fact \0"),
    "escape": lines("fact \033[2J"),
    "tables-text": swap("tables complete", "tables some"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged(tmp_path, name):
    text = DAMAGES[name](emulator())
    assert text != emulator()
    expect_line(*judge(tmp_path, text))


def test_cut(tmp_path):
    """A dump that ends anywhere."""
    text = emulator()
    for i in range(CUTS):
        expect_line(*judge(tmp_path, text[: len(text) * i // CUTS]))
    return f"{CUTS} lengths"


def test_flipped(tmp_path):
    """Bytes changed anywhere: a verdict or one line, never a crash."""
    random.seed(15)
    lines = 0
    for _ in range(FLIPS):
        text = bytearray(emulator(), "ascii")
        for _ in range(random.randint(1, 8)):
            text[random.randrange(len(text))] = random.choice(b"0123456789abcdef \n")
        status, said = judge(tmp_path, text.decode())
        lines += status == NOT_ASKED
        assert status != NOT_ASKED or said.count("\n") == 1, said
    assert 0 < lines < FLIPS
    return f"{FLIPS} dumps, {lines} refused"


def test_dump_of_a_dump():
    """--dump prints what was read."""
    status, text, _ = run("--from", dump("emulator"), "--dump")
    assert status == 0 and text == emulator()


# ---- the command line ----


def test_needs_root():
    """Without root one line, which also says what CPUID tells of VMX."""
    program = made("build/pmuvisor-check")
    drop = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*drop, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == NOT_ASKED and done.stdout == "", done.stdout
    with open("/proc/cpuinfo", encoding="ascii") as source:
        vmx = " vmx" in source.read()
    assert done.stderr == (
        "pmuvisor-check: found no right to read MSRs and ACPI tables, wanted root; run it by sudo; "
        f"this processor shows {'' if vmx else 'no '}VMX (CPUID.1:ECX bit 5)"
        f"{'' if vmx else ', and PMUvisor refuses to start without'}\n"
    ), done.stderr


def test_make_installs_what_is_missing():
    """The first command of docs/metal.md, on a Debian without a compiler."""
    assert "testbed/deps.sh build" in made_up.make("-n", "pmuvisor-check").stdout


def test_usage():
    for arguments, said in (
        (["--frmo", "x"], "usage:"),
        (["x"], "found 'x', wanted an option"),
        (["--from", "/nowhere"], "cannot read /nowhere"),
        (["--from", dump("emulator"), "--config", "/nowhere"], "cannot read /nowhere"),
    ):
        status, out, err = run(*arguments)
        assert status == NOT_ASKED and out == "" and said in err, err
    assert run("--help")[0] == 0


def test_asks_no_real_processor():
    """No function of the image asks the processor that this runs on: all is the dump's."""
    archive = made("build/check/image.a")
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", archive], capture_output=True, text=True, check=True
    ).stdout
    functions = re.findall(r"^\w+ <(\w+)>:\n((?:.+\n)+)", code, re.MULTILINE)
    asks = {name for name, body in functions if re.search(r"\t(cpuid|rdmsr|rdtsc|in)\b", body)}
    assert len(functions) > 100 and not asks, asks
