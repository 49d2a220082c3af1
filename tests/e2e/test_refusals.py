# SPDX-License-Identifier: BSD-2-Clause
# test_refusals.py: bad input ends in one clear line, and the machine still boots something else.
# Many refusals share one boot: a menu entry starts pmuvisor.efi again and again, each time with
# another fault, and boots the kernel natively at last.
import functools
import os
import re
import shutil
import struct

import pytest

from testbed.boots import image as image_of
from testbed.boots import initrd, kernel
from testbed.machine import (
    BACKSTOP_SECONDS,
    STATUS_POWEROFF,
    STATUS_REFUSED,
    STATUS_RESET,
    made,
    path,
)

REFUSAL = "PMUvisor refuses to start: "
FOLDER = "/EFI/cases"
IMAGE = "/EFI/pmuvisor/pmuvisor.efi"

# Fields of the kernel's setup header: Linux, Documentation/arch/x86/boot.rst.
HEADER_VERSION = 0x206
HEADER_RELOCATABLE = 0x234
HEADER_XLOADFLAGS = 0x236
HEADER_INIT_SIZE = 0x260

BIG_MEMORY = 320  # MiB of the machine whose free memory the large initrd exceeds
BIG_INITRD = 300 << 20

# Name, load options, and what the line must say, in this order. All are given to the same image.
OPTION_CASES = [
    ("unknown-option", "colour=blue", ["colour=blue", "wanted"]),
    ("bad-policy", "policy=fast", ["policy", "found 'fast'", "wanted"]),
    ("bad-console", "console=com9", ["console", "found 'com9'", "wanted"]),
    ("bad-pmu", "pmu=maybe", ["pmu", "found 'maybe'", "wanted"]),
    ("bad-stats", "stats=all", ["stats", "found 'all'", "wanted"]),
    ("bad-tick", "tick=soon", ["tick", "found 'soon'", "wanted"]),
    ("long-tick", "tick=10001", ["tick", "found '10001'", "wanted"]),
    ("bad-unblock", "unblock=never", ["unblock", "found 'never'", "wanted eager or lazy"]),
    ("bad-owner", "platform_nmi=both", ["platform_nmi", "found 'both'", "wanted guest or host"]),
    ("bad-mitigations", "mitigations=some", ["mitigations", "found 'some'", "wanted auto or off"]),
    ("bad-steps", "bookkeeping=lost,more", ["bookkeeping", "found 'more'", "wanted all, none"]),
    ("bad-wait", "wait=long", ["wait", "found 'long'", "wanted seconds from 0 to 3600"]),
    ("bad-fault", "fault=retry", ["fault", "found 'retry'", "wanted halt or reset"]),
    ("bad-start", "start=2", ["start", "found '2'", "wanted on or off"]),
    ("bad-user", "user_hypercalls=yes", ["user_hypercalls", "found 'yes'", "wanted 0 or 1"]),
    ("no-value", "console", ["console", "wanted"]),
    ("long-path", "kernel=" + "k" * 300, ["kernel", "found 300 characters", "wanted at most"]),
    ("long-line", "append=" + "a" * 5000, ["found", "characters", "wanted at most"]),
    ("kernel-missing", f"kernel={FOLDER}/absent", ["kernel", "absent", "not found"]),
    ("kernel-empty", f"kernel={FOLDER}/empty", ["kernel", "empty", "wanted a bzImage"]),
    ("kernel-short", f"kernel={FOLDER}/short", ["kernel", "short", "bytes", "wanted"]),
    ("kernel-truncated", f"kernel={FOLDER}/truncat", ["kernel", "bytes", "truncated"]),
    ("kernel-text", f"kernel={FOLDER}/text", ["kernel", "text", "wanted", "bzImage"]),
    ("kernel-old", f"kernel={FOLDER}/old", ["kernel", "boot protocol 2.09", "wanted 2.12"]),
    ("kernel-32-bit", f"kernel={FOLDER}/bits32", ["kernel", "64-bit", "wanted"]),
    ("kernel-fixed", f"kernel={FOLDER}/fixed", ["kernel", "not relocatable", "wanted"]),
    ("kernel-too-large", f"kernel={FOLDER}/large", ["kernel", "KiB", "wanted"]),
    ("initrd-missing", f"initrd={FOLDER}/absent", ["initrd", "absent", "not found"]),
    ("initrd-empty", f"initrd={FOLDER}/empty", ["initrd", "empty", "wanted"]),
    ("initrd-folder", f"initrd={FOLDER}", ["initrd", "folder", "wanted"]),
    ("initrd-too-large", f"initrd={FOLDER}/biginit", ["initrd", "KiB", "wanted"]),
]

# Name, content of pmuvisor.cfg (None: a folder of that name), what the line must say.
CONFIG_CASES = [
    ("config-unknown", b"wait=0\nflavour=sweet\n", ["pmuvisor.cfg", "flavour=sweet", "wanted"]),
    (
        "config-bad-value",
        b"# comment\nwait=0\nstats=none\n",
        ["pmuvisor.cfg", "stats", "found 'none'"],
    ),
    ("config-not-text", b"policy=\x01\x02\n", ["pmuvisor.cfg", "found", "wanted"]),
    ("config-too-long", b"#" * 20000, ["pmuvisor.cfg", "bytes", "wanted at most"]),
    ("config-folder", None, ["pmuvisor.cfg", "folder", "wanted"]),
]

# Name, the emulator's knob (testbed/README.md), what the line must say: one boot each, because the
# firmware and the kernel that would come after see the same processor.
HARDWARE_CASES = (
    [
        ("no-vmx", "hide_feature vmx", ["no VMX", "CPUID.1:ECX", "wanted", "use"]),
        (
            "vmx-locked-off",
            "feature_control locked_off",
            ["locked off", "IA32_FEATURE_CONTROL is 0x", "wanted", "turn on"],
        ),
    ]
    + [
        (
            f"no-{knob.replace('_', '-')}",
            f"hide_control {knob}",
            [f'"{control}" is missing', where, "use"],
        )
        for knob, control, where in (
            ("activate_secondary_controls", "activate secondary controls", "PROCBASED_CTLS bit 31"),
            ("use_msr_bitmaps", "use MSR bitmaps", "PROCBASED_CTLS bit 28"),
            ("use_io_bitmaps", "use I/O bitmaps", "PROCBASED_CTLS bit 25"),
            ("monitor_trap_flag", "monitor trap flag", "PROCBASED_CTLS bit 27"),
            ("enable_vpid", "enable VPID", "PROCBASED_CTLS2 bit 5"),
            ("unrestricted_guest", "unrestricted guest", "PROCBASED_CTLS2 bit 7"),
            ("save_pat", "save IA32_PAT", "EXIT_CTLS bit 18"),
            ("load_pat_at_exit", "load IA32_PAT at exit", "EXIT_CTLS bit 19"),
            ("save_efer", "save IA32_EFER", "EXIT_CTLS bit 20"),
            ("load_efer_at_exit", "load IA32_EFER at exit", "EXIT_CTLS bit 21"),
            ("load_pat_at_entry", "load IA32_PAT at entry", "ENTRY_CTLS bit 14"),
            ("load_efer_at_entry", "load IA32_EFER at entry", "ENTRY_CTLS bit 15"),
        )
    ]
    + [
        # The emulator wants what builds on EPT gone with it.
        (
            "no-enable-ept",
            "hide_control enable_ept\nhide_control enable_pml\n"
            "hide_control unrestricted_guest\nhide_control ept_accessed_dirty",
            ['"enable EPT" is missing', "PROCBASED_CTLS2 bit 1", "use"],
        ),
        (
            "no-wait-for-sipi",
            "hide_control wait_for_sipi",
            ["wait-for-SIPI activity state is missing", "IA32_VMX_MISC bit 8", "use"],
        ),
        ("no-ept-walk-length-4", "hide_control ept_walk_length_4", ["4-level walk", "missing"]),
        ("no-ept-write-back", "hide_control ept_write_back", ["write-back", "missing"]),
    ]
)


def squeeze(text):
    return re.sub(r"\s+", "", text)


def menu_of(cases, last=("linux $pmv_dir/vmlinuz $append", "initrd $pmv_dir/initrd.img")):
    """cases: (name, image, load options). Every start must come back; then comes `last`."""
    lines = [
        "set pmv_dir=/EFI/pmuvisor",
        "source $pmv_dir/local.cfg",
        "set default=tests",
        "menuentry tests --id tests {",
    ]
    for name, image, options in cases:
        lines += [
            f"echo '[case {name}]'",
            f"chainloader {image} {options}",
            "boot",
            f"echo '[back {name}]'",
        ]
    return "\n".join(lines + [*last, "}"]) + "\n"


def write(folder, name, content):
    target = os.path.join(folder, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as out:
        out.write(content)


def patched(kernel, offset, layout, value):
    """A kernel with one header field changed."""
    changed = bytearray(kernel)
    struct.pack_into(layout, changed, offset, value)
    return bytes(changed)


def write_case_files(folder, kernel, image):
    """The files that the cases name; all but one kernel are cut, as their header decides."""
    head = kernel[: 256 << 10]
    (large,) = struct.unpack_from("<I", kernel, HEADER_INIT_SIZE)
    assert large < 1 << 29, f"the kernel's init_size is {large:#x} already"
    write(folder, "empty", b"")
    write(folder, "short", kernel[:0x200])
    write(folder, "truncat", head)
    write(folder, "text", b"This is not a kernel.\n" * 4096)
    write(folder, "old", patched(head, HEADER_VERSION, "<H", 0x0209))
    write(folder, "bits32", patched(head, HEADER_XLOADFLAGS, "<H", 0))
    write(folder, "fixed", patched(head, HEADER_RELOCATABLE, "<B", 0))
    write(folder, "large", patched(kernel, HEADER_INIT_SIZE, "<I", 1 << 30))
    with open(os.path.join(folder, "biginit"), "wb") as out:
        out.truncate(BIG_INITRD)
    for name, config, _ in CONFIG_CASES:
        write(folder, f"{name}/pmuvisor.efi", image)
        if config is None:
            os.makedirs(os.path.join(folder, name, "pmuvisor.cfg"))
        else:
            write(folder, f"{name}/pmuvisor.cfg", config)


@functools.lru_cache(None)
def case_folder():
    """The files, in a folder of their own."""
    work = path("build", "cases")
    shutil.rmtree(work, ignore_errors=True)
    with open(kernel(), "rb") as source, open(made(image_of()), "rb") as ours:
        write_case_files(work, source.read(), ours.read())
    return work


def many(lab):
    """The boot that tries every case of the two tables."""
    cases = [(name, IMAGE, options) for name, options, _ in OPTION_CASES]
    cases += [(name, f"{FOLDER}/{name}/pmuvisor.efi", "") for name, _, _ in CONFIG_CASES]
    return lab.emulator(
        "refusals",
        menu=menu_of(cases),
        add={FOLDER: case_folder()},
        memory=BIG_MEMORY,
        entry="tests",
    )


def segment(boot, name):
    """What was said between the start of a case and the return to GRUB."""
    start = boot.console.find(f"[case {name}]")
    end = boot.console.find(f"[back {name}]", start)
    if start < 0 or end < 0:
        what = "never started" if start < 0 else "did not come back to GRUB"
        raise AssertionError(f"{name} {what} (exit status {boot.status}); {boot.last_line()}")
    return boot.console[start:end]


def expect_refusal(boot, name, fragments):
    """Exactly one refusal line, with all fragments in order and something to do after a ; or :"""
    text = squeeze(segment(boot, name))
    at = text.find(squeeze(REFUSAL))
    assert at >= 0, f"{name}: no refusal line in: {text[-200:]}"
    assert text.count(squeeze(REFUSAL)) == 1, f"{name}: said more than once"
    line = text[at + len(squeeze(REFUSAL)) :]
    position = 0
    for fragment in fragments:
        found = line.find(squeeze(fragment), position)
        assert found >= 0, f"{name}: '{fragment}' is not in: {line[:300]}"
        position = found
    assert ";" in line or ":" in line, f"{name}: the line says not what to do: {line[:300]}"


REFUSALS = [(name, fragments) for name, _, fragments in OPTION_CASES + CONFIG_CASES]


@pytest.mark.parametrize("name, fragments", REFUSALS, ids=[name for name, _ in REFUSALS])
def test_option(lab, name, fragments):
    expect_refusal(many(lab), name, fragments)


@pytest.mark.parametrize(
    "name, knob, fragments", HARDWARE_CASES, ids=[case[0] for case in HARDWARE_CASES]
)
def test_hardware(lab, name, knob, fragments):
    menu = menu_of([(name, IMAGE, "")], last=["reboot"])
    boot = lab.emulator(f"refusal-{name}", menu=menu, entry="tests", knobs=knob + "\n")
    expect_refusal(boot, name, fragments)
    # GRUB was able to do something else: it reset the machine.
    boot.expect_status(STATUS_RESET)


def test_no_pmu(lab):
    """Without an architectural PMU: refused, but pmu=off starts the guest."""
    menu = menu_of([("no-pmu", IMAGE, "")], last=[f"chainloader {IMAGE} pmu=off"])
    boot = lab.emulator("refusal-no-pmu", menu=menu, entry="tests", knobs="pmu off\n")
    expect_refusal(boot, "no-pmu", ["no architectural PMU", "CPUID.0AH", "wanted", "pmu=off"])
    boot.expect_status(STATUS_POWEROFF)
    assert "running under PMUvisor" in boot.console, boot.last_line()


def test_boots_on(lab):
    """After all refusals GRUB boots the kernel natively."""
    boot = many(lab)
    boot.expect_status(STATUS_POWEROFF)
    assert "running natively" in boot.console


def test_no_vmx_qemu(lab):
    """QEMU without VMX: PMUvisor refuses, GRUB goes on, and run-qemu.sh says why in one line."""
    boot = lab.watch(
        "qemu-no-vmx",
        [
            path("run-qemu.sh"),
            "--backend",
            "tcg",
            "--efi",
            made("build/pmuvisor.efi"),
            "--kernel",
            kernel(),
            "--initrd",
            made(initrd()),
            "--config",
            "wait=0",
            "--timeout",
            str(BACKSTOP_SECONDS),
        ],
    )
    text = boot.squeezed()
    at = text.find(squeeze(REFUSAL + "this processor shows no VMX"))
    assert at >= 0, boot.last_line()
    for fragment in ("CPUID.1:ECX", "wanted", "VT-x"):
        assert squeeze(fragment) in text[at:], f"'{fragment}' is not said"
    assert boot.status == STATUS_REFUSED, f"exit status {boot.status}, wanted {STATUS_REFUSED}"
    lines = [line for line in boot.errors.splitlines() if "refuses to start" in line]
    assert len(lines) == 1 and "VMX" in lines[0], boot.errors
    assert (
        "error:" not in lines[0] and "Falling" not in lines[0]
    ), f"GRUB's words are in it: {lines[0]}"
    assert "Falling back" in boot.console[boot.console.find("PMUvisor") :], "GRUB did not come back"
