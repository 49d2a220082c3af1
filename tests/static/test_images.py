# SPDX-License-Identifier: BSD-2-Clause
# test_images.py: what experiments cost where they are off. pmuvisor.efi has nothing of them, and
# the exit path of pmuvisor-lab.efi is the same, instruction for instruction: only where a field of
# a struct lies may differ.
import difflib
import os
import re
import subprocess

import pytest

from testbed.machine import path

# All that an exit, or an NMI in root mode, goes through that is not its handler alone; and
# handlers.
EXIT_PATH = """vmx_exit_entry vmx_exit_entry_guarded vmx_exit_entry_timed vmx_exit vmx_exit_timed
vmx_exit_with_nmi_work nmi_entry nmi_root nmi_process_notes nmi_claim nmi_forward nmi_unblock
pmu_reload_global_ctrl exit_cpuid exit_rdmsr exit_wrmsr exit_rdpmc exit_io exit_vmcall
exit_cr_access exit_nmi exit_nmi_window exit_tick exit_ept_violation handle_nmi_work
complete_instruction""".split()
LABEL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(.*)$")
NO_OPERATION = re.compile(r"((cs|data16) )*(nop[wl]?|xchg   %ax,%ax)\b")


def normal(instruction):
    """Without the addresses that the layout of image and structs gives."""
    text = re.sub(r"#.*", "", instruction)
    text = re.sub(
        r"\b[0-9a-f]+ <([^>+]+)(\+0x[0-9a-f]+)?>",
        lambda to: f"<{'here' if to[1].startswith('..@') else to[1]}>",
        text,
    )
    return re.sub(r"-?0x[0-9a-f]+(\(|$)", r"D\1", re.sub(r"%gs:0x[0-9a-f]+", "%gs:D", text)).strip()


def functions(elf):
    """The instructions of each function, as normal() has them."""
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", elf], capture_output=True, text=True, check=True
    )
    found, name = {}, None
    for line in done.stdout.splitlines():
        label, instruction = LABEL.match(line), INSTRUCTION.match(line)
        if label and not label[1].startswith("..@"):
            name = label[1]
            found[name] = []
        elif instruction and name:
            found[name].append(normal(instruction[1]))
    return {name: without_padding(instructions) for name, instructions in found.items()}


def without_padding(instructions):
    """Without the no-operations after a function's last instruction. They fill the space up to the
    next function, as much as that is, and nothing executes them."""
    while instructions and NO_OPERATION.match(instructions[-1]):
        instructions = instructions[:-1]
    return instructions


def differences(one, other, names):
    for name in names:
        if one[name] != other[name]:
            yield name + ":\n" + "\n".join(list(difflib.unified_diff(one[name], other[name]))[:12])


def test_same_exit_path():
    """Both images have the same exit path, and pmuvisor.efi no object of an experiment's."""
    if not os.path.isdir(path("experiments")):
        pytest.skip("there are no experiments, so no other image")
    without = functions(path("build", "pmuvisor.elf"))
    with_it = functions(path("build", "pmuvisor-lab.elf"))
    with open(path("build", "pmuvisor.map"), encoding="utf-8") as file:
        assert "/experiments/" not in file.read().replace("vmx/start/experiments", "")
    assert set(without) < set(with_it)
    assert not list(differences(without, with_it, EXIT_PATH))


def test_sees_a_difference():
    """One instruction more in one function is seen, and named."""
    one = {"vmx_exit": ["mov    D(%rdi),%eax", "ret"]}
    other = {"vmx_exit": ["mov    D(%rdi),%eax", "cmp    D(%rdi),%al", "ret"]}
    found = list(differences(one, other, ["vmx_exit"]))
    assert len(found) == 1 and found[0].startswith("vmx_exit:") and "+cmp" in found[0]


def test_padding():
    """What follows the last instruction does not count; a no-operation before it does."""
    code = ["nop", "call   <vmcs_access_failed>"]
    assert (
        without_padding(code + ["xchg   %ax,%ax", "cs nopw D(%rax,%rax,1)", "nopl   D(%rax)"])
        == code
    )
    assert without_padding(code + ["nopl   D(%rax)", "ret"]) == code + ["nopl   D(%rax)", "ret"]
