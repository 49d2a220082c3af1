# SPDX-License-Identifier: BSD-2-Clause
# test_check.py: what pmuvisor-check says of a machine is what the image says on it. Each machine
# boots Debian's kernel once natively, which writes a dump, and then the image under each set of
# options; all lines of both have to agree. An image that refuses goes back to GRUB, and the same
# boot goes on natively.
import re

import pytest

from metal.tests.made_up import content, put
from testbed import boots
from testbed.machine import PAYLOAD_APPEND, STATUS_POWEROFF, STATUS_RESET, TOP, made, path
from tests.e2e.scripts import run
from tests.e2e.test_refusals import IMAGE, REFUSAL, boot_without_vmx, menu_of, segment, squeeze
from tests.e2e.test_vtd import contained

pytestmark = pytest.mark.more

TSC = "tsc_hz 50000000\n"
STARTED = "pmuvisor: starting the guest"
IMAGE_SIZE = r"hidden:image\d+KiB"
# The image measures it; the program takes it from Linux, which measured it as well.
MEASURED = r"TSC:\d+kHz,measured"
# Of the image's lines, those that say where something is, or what files and screen there are; and
# GRUB's.
NOT_JUDGED = (
    r"PMUvisor0\.[0-9.]+,policy(msr\+nmi|msr|intercept)",
    r"platform:ACPI\w+,.*?processors?,(noframebuffer|framebuffer\d+x\d+)"
    r"(,nofont:notextonitafterfirmware)?",
    r"leavingfirmware",
    r"guest:kernelat.*?e820entries",
    r"kernelvmlinuz:\d+bytes(,read:[0-9%]*)?",
    r"initrdinitrd\.img:\d+bytes(,read:[0-9%]*)?",
    r"error:unknownerror\.",
    IMAGE_SIZE,
)

# Name of a machine: what lab.emulator() is given.
MACHINES = {
    "skylake": {},
    "tsc": {"knobs": TSC},
    "no-pmu": {"knobs": "pmu off\n"},
    "pmu-3": {"knobs": "pmu_version 3\n"},
    "pmu-6": {"knobs": "pmu_version 6\npmu_general_mask 0xff\npmu_fixed_mask 0x2f\n"},
    "two": {"cpus": 2, "knobs": TSC},
    "four": {"cpus": 4, "knobs": TSC},
    "missing": {"cpus": 2, "listed": 3, "knobs": TSC},
    "no-timer": {"knobs": "hide_control activate_vmx_preemption_timer\n"},
    "no-global-ctrl": {"knobs": "hide_control load_global_ctrl_at_exit\n"},
    "save-global-ctrl": {"knobs": "show_control save_global_ctrl\n"},
    "no-nmi": {
        "knobs": "hide_control nmi_exiting\nhide_control virtual_nmis\n"
        "hide_control nmi_window_exiting\n"
    },
    "no-1g": {"knobs": "hide_control ept_1g_pages\n"},
    "big": {"memory": 2048},
    "ports": {"knobs": "msr 0xe2 0x400\nmsr 0xe4 0x1814\n" + TSC},
    "sandy": {"model": "corei7_sandy_bridge_2600k"},
    "haswell": {"model": "corei7_haswell_4770"},
    "broadwell": {"model": "broadwell_ult"},
    "icelake": {"model": "corei7_icelake_u"},
    "sapphire": {"model": "sapphire_rapids"},
    "arrow": {"model": "arrow_lake"},
    "locked-on": {"knobs": "feature_control locked_on\n"},
    # Family 6, model FFH, which no kernel knows, with a PMU as processors since 2024 have it.
    "new-model": {
        "knobs": "cpuid 1 0 eax 0xf00f0\npmu_version 6\npmu_general_mask 0xff\n"
        "pmu_fixed_mask 0x2f\n" + TSC
    },
}
# Machines that are refused whatever the options: one boot each.
REFUSED = {
    "no-vmx": "hide_feature vmx",
    "locked-off": "feature_control locked_off",
    "no-secondary": "hide_control activate_secondary_controls",
    "no-bitmaps": "hide_control use_msr_bitmaps",
    "no-io-bitmaps": "hide_control use_io_bitmaps",
    "no-monitor-trap": "hide_control monitor_trap_flag",
    "no-sipi": "hide_control wait_for_sipi",
    "no-vpid": "hide_control enable_vpid",
    "no-unrestricted": "hide_control unrestricted_guest",
    "no-pat": "hide_control save_pat",
    "no-efer": "hide_control load_efer_at_entry",
    "no-walk": "hide_control ept_walk_length_4",
    "no-write-back": "hide_control ept_write_back",
    "no-ept": "hide_control enable_ept\nhide_control enable_pml\nhide_control unrestricted_guest\n"
    "hide_control ept_accessed_dirty",
}
# (machine, options): how the image starts there.
STARTS = [
    ("skylake", "tick=0 mitigations=off"),
    ("skylake", "tick=100"),
    ("skylake", "apic=trap"),
    ("skylake", "policy=intercept"),
    ("skylake", "policy=msr tick=0"),
    ("skylake", "pmu=off"),
    ("skylake", "policy=sometimes"),
    ("tsc", "tick=100"),
    ("tsc", "tick=100 policy=msr"),
    ("no-pmu", "pmu=off"),
    ("no-pmu", "pmu=on"),
    ("pmu-3", ""),
    ("pmu-6", ""),
    ("two", ""),
    ("two", "apic=trap"),
    ("four", ""),
    ("missing", ""),
    ("no-timer", "tick=100"),
    ("no-global-ctrl", ""),
    ("save-global-ctrl", ""),
    ("no-nmi", ""),
    ("no-nmi", "policy=msr"),
    ("no-1g", ""),
    ("big", ""),
    ("ports", "tick=100"),
    ("sandy", ""),
    ("haswell", ""),
    ("broadwell", ""),
    ("icelake", ""),
    ("sapphire", ""),
    ("arrow", ""),
    ("locked-on", ""),
]
IN_DEFAULT = {
    ("skylake", "tick=0 mitigations=off"),
    ("skylake", "policy=sometimes"),
    ("skylake", "tick=100"),
    ("skylake", "policy=msr tick=0"),
}


PROGRAM = path("build", "pmuvisor-check")


def initrd():
    """The small image, and after it the job `check` with the program."""
    return (
        boots.initrd(),
        {"jobs/check": path("build", "tests", "check-job"), "pmuvisor-check": PROGRAM},
    )


def said_there(boot, words, status=r"\d"):
    """What the job `check` printed for these words of the program."""
    pattern = rf"^check: begin {words}\n(.*?)^check: end {words} status={status}$"
    found = re.search(pattern, boot.console, re.DOTALL | re.MULTILINE)
    assert found, f"no end of {words}; last line: {boot.last_line()}"
    return found[1]


def dumped(lab, boot, name):
    """The dump that is on the console, as a file."""
    return put(lab.keep, f"check-{name}.dump", said_there(boot, "--dump", 0).encode("ascii"))


def native(lab, machine):
    """The dump of one of MACHINES."""
    boot = lab.emulator(
        f"check-native-{machine}",
        entry="native",
        jobs="check",
        initrd=initrd(),
        **MACHINES[machine],
    )
    boot.expect_status(STATUS_POWEROFF)
    file = dumped(lab, boot, machine)
    said = said_there(boot, "--log").splitlines()
    assert said == says(file, None)[0], "the dump is another machine than this one"
    return file


def says(file, options, *more):
    """(lines, status) of what the program says of a dump."""
    arguments = [made(PROGRAM), "--from", file, "--log", *more]
    if options is not None:
        arguments += ["--options", options]
    done = run(*arguments)
    assert done.returncode in (0, 1, 2, 3), done.stderr
    return done.stdout.splitlines(), done.returncode


def agree(lines, text):
    """Each line that the program has is one of the image's, in this order; gives what other lines
    the image has. Firmware breaks lines where its screen ends: blanks do not count."""

    def comparable(said):
        return re.sub(MEASURED, "TSC:measured", re.sub(IMAGE_SIZE, "", squeeze(said)))

    left, at = [], 0
    text = comparable(text)
    for line in map(comparable, lines):
        found = text.find(line, at)
        assert found >= 0, f"the image does not say '{line}' here: {text[at:at + 600]}"
        left.append(text[at:found])
        at = found + len(line)
    left.append(text[at:])
    others = "\n".join(left)
    for pattern in NOT_JUDGED:
        others = re.sub(pattern, "", others)
    return others.split()


def started(lab, machine, options):
    """The image's boot on one of MACHINES, up to the guest's entry."""
    return lab.emulator(
        re.sub(r"\W+", "-", f"check-{machine}-{options}").strip("-"),
        entry="tests",
        menu=menu_of([("start", IMAGE, options)], last=["reboot"]),
        config="tick=100 mitigations=auto",
        initrd=initrd(),
        until=STARTED,
        **MACHINES[machine],
    )


@pytest.mark.parametrize(
    "machine, options",
    [
        pytest.param(
            *start,
            id=re.sub(r"\W+", "-", " ".join(start)).strip("-"),
            marks=[] if start in IN_DEFAULT else [pytest.mark.full],
        )
        for start in STARTS
    ],
)
def test_starts(lab, machine, options):
    """The image's log up to the guest's entry, or its refusal, is what the program says."""
    file = native(lab, machine)
    boot = started(lab, machine, options)
    lines, _ = says(file, f"tick=100 mitigations=auto {options}")
    refused = [line for line in lines if line.startswith(REFUSAL)]
    if refused:
        boot.expect_status(STATUS_RESET)
    else:  # what the guest does then is not asked here
        assert STARTED in boot.console, boot.last_line()
    text = segment(boot, "start") if refused else boot.console[boot.console.find("[case start]") :]
    begin = text.find("PMUvisor")
    if not refused:
        text = text[: text.find("\n", text.find(STARTED))]
    others = agree(lines, text[begin:])
    assert not others, f"only the image says: {others}"
    return f"{len(lines)} lines"


@pytest.mark.parametrize(
    "machine",
    [pytest.param(name, marks=[] if name == "no-vpid" else [pytest.mark.full]) for name in REFUSED],
)
def test_refuses(lab, machine):
    """The image's refusal, and the program's in the same boot, natively afterwards."""
    menu = menu_of([("start", IMAGE, "")])
    boot = lab.emulator(
        f"check-refused-{machine}",
        entry="tests",
        menu=menu,
        jobs="check",
        initrd=initrd(),
        config="tick=100 mitigations=auto",
        knobs=REFUSED[machine] + "\n",
    )
    boot.expect_status(STATUS_POWEROFF)
    lines, status = says(dumped(lab, boot, machine), None)
    assert status == 2 and lines[-1].startswith(REFUSAL), lines
    text = segment(boot, "start")
    others = agree(lines, text[text.find("PMUvisor") :])
    assert not others, f"only the image says: {others}"
    return lines[-1][len(REFUSAL) : 70]


@pytest.mark.full
def test_qemu(lab):
    """Without VMX, with a VT-d unit: the refusal is the image's, the unit's registers are read."""
    words = f"{PAYLOAD_APPEND} pmv.run=check pmv.end=poweroff"
    image = put(path("build"), "check-qemu-initrd.img", boots.bytes_of(initrd()))
    machine = (
        "qemu-system-x86_64 -machine q35,accel=tcg,kernel-irqchip=split -cpu Skylake-Server -smp 2 "
        "-m 512 -device intel-iommu,aw-bits=48 -nic none -display none -serial stdio -no-reboot"
    ).split()
    files = ["-kernel", lab.kernel(), "-initrd", image]
    boot = lab.watch("check-qemu", [*machine, *files, "-append", words])
    boot.expect_status(0)
    file = dumped(lab, boot, "qemu")
    # -kernel is no firmware's way.
    assert b"fact this Linux was not started by UEFI, which PMUvisor needs" in content(file)
    lines, status = says(file, None)
    assert status == 2 and len(lines) == 1, lines
    assert squeeze(lines[0]) in boot_without_vmx(lab).squeezed(), lines
    # The unit on a machine with VMX: the line is what tests/vtd has of the same unit.
    pattern = r"^(?:vtd 00000000fed90000 .*\n|table DMAR \d+\n(?:\+ .*\n)+)"
    units = re.findall(pattern, content(file).decode(), re.MULTILINE)
    assert len(units) == 2, units
    text = content(TOP, "metal", "tests", "dumps", "emulator.dump").decode()
    text = text.replace("cpu 0\n", "".join(units) + "cpu 0\n", 1)
    file = put(lab.keep, "check-qemu-unit.dump", text.encode())
    lines, status = says(file, None)
    assert status == 0 and contained(4, "the EPT's tables") in lines, lines


def test_says_that_perf_does_not_know_the_model(lab):
    """Of a model that the kernel's perf knows it says nothing."""
    said = [run(made(PROGRAM), "--from", native(lab, name)).stdout for name in ("new-model", "tsc")]
    wanted = " does not know this processor's model (generic_arch_v5+): it counts architectural"
    assert [wanted in text for text in said] == [True, False], said


def test_sees_difference(lab):
    """Another machine's lines are not taken for this one's."""
    text = content(native(lab, "skylake")).decode()
    changed = re.sub(r"^(msr 0000048c .{8}).{8}", r"\g<1>06114141", text, flags=re.MULTILINE)
    file = put(lab.keep, "check-changed.dump", changed.encode())
    boot = started(lab, "skylake", "tick=100")
    with pytest.raises(AssertionError, match="the image does not say"):
        agree(
            says(file, "tick=100 mitigations=auto")[0],
            boot.console[boot.console.find("[case start]") :],
        )
