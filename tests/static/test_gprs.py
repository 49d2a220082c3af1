# SPDX-License-Identifier: BSD-2-Clause
# test_gprs.py: the ways into root mode that leave RBP and R12 to R15 in the processor. Between them
# and a handler that wants these registers (vmx/exit/all_gprs.asm) nothing may use them: the handler
# is jumped to, never called, and what jumps there does not name them. A handler that has no such way
# may not come to what looks at any register.
import re
import subprocess

from machine import TOP, path
from test_trace_off import functions

WAYS_IN = ("vmx_exit", "trace_exit")
THUNK = "_with_all_gprs"
KEPT = re.compile(r"%(?:rbp|ebp|bpl?|r1[2-5][dwb]?)\b")
INDIRECT = re.compile(r"^(?:call|jmp) +\*")
CALLED = re.compile(r"^call +<(\w+)>")
REFERS = re.compile(r"^(?:call|j\w+) +<([\w.]+)>")
# What is called by a table: handlers, hypercalls but for the tests', and what does an MSR's access.
HANDLER = re.compile(r"\[(?:EXIT_REASON_(?!COUNT)|HYPERCALL_(?!TEST_))\w+\] = (\w+)[,;]|"
                     r"^    .*_BY\((\w+)\)\},|CUSTOM, [A-Z_]+, (\w+)\}", re.MULTILINE)
# What reads or writes the guest's registers by number, so any of them.
BY_NUMBER = ("report_guest", "cr_operand", "apic_trap_access", "await_sipi")
TABLES = ("vmx/exit/exit.c", "vmx/exit/hypercall.c", "vmx/exit/msr.c", "experiments/flow/hypervisor/flow.c", "experiments/flow/hypervisor/exit.c",
          "experiments/flow/hypervisor/level.c")


def code_of(elf):
    """Where an access to the VMCS fails, code goes on behind some other function: no jump to it."""
    return functions(elf, inside="+")


def jumped_to(code, start):
    """The functions that control may come to from there without a call."""
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in found or name.endswith(THUNK):
            continue
        found.add(name)
        for instruction in code[name]:
            to = REFERS.match(instruction)
            if to and not instruction.startswith("call") and to[1] in code:
                todo.append(to[1])
    return found


def reached(code, start):
    """The same with calls."""
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [to[1] for to in map(REFERS.match, code[name]) if to and to[1] in code]
    return found


def wrong_ways(code, name):
    """A line for each thing wrong between this way in and the handlers."""
    jumpers, dispatches = jumped_to(code, name), False
    for jumper in sorted(jumpers):
        for instruction in code[jumper]:
            if INDIRECT.match(instruction):
                dispatches |= instruction.startswith("jmp")
                if instruction.startswith("call"):
                    yield f"{jumper} calls a handler: {instruction}"
            if KEPT.search(instruction):
                yield f"{jumper} uses a register that it has to leave alone: {instruction}"
    if not dispatches:
        yield f"{name} and what it jumps to never jump by a table"


def faults(code, handlers):
    """What is wrong, a line each."""
    for name in WAYS_IN:
        yield from wrong_ways(code, name)
    for name, instructions in code.items():
        for called in filter(None, map(CALLED.match, instructions)):
            if called[1].endswith(THUNK):
                yield f"{name} calls {called[1]}, which is to be jumped to"
    for name in sorted(handlers):
        for end in sorted(reached(code, name).intersection(BY_NUMBER)):
            yield f"{name} has no {name}{THUNK}, and comes to {end}"


def plain_handlers(code):
    """Those that the tables name, but for those that the same table has with a thunk."""
    found = set()
    for source in TABLES:
        with open(path(source), encoding="utf-8") as file:
            named = {name for groups in HANDLER.findall(file.read()) for name in groups if name}
        assert named and named <= code.keys(), f"{source}: no function {sorted(named - code.keys())}"
        found |= {name for name in named
                  if not name.endswith(THUNK) and name + THUNK not in named}
    return found


def test_kept_registers():
    code = code_of(path("build", "pmuvisor.elf"))
    handlers = plain_handlers(code)
    assert handlers >= {"exit_cpuid", "statistics", "apic_base_write", "pmu_access",
                        "x2apic_icr", "flow_hlt"}, handlers
    assert any(name.endswith(THUNK) for name in code), "wanted such handlers"
    assert code.keys() >= set(BY_NUMBER), set(BY_NUMBER) - code.keys()
    assert not list(faults(code, handlers))
    return f"{len(handlers)} handlers without"


def test_clang(tmp_path):
    """The other compiler jumps there as well."""
    subprocess.run(["make", f"BUILD={tmp_path}", "CC=clang", f"{tmp_path}/pmuvisor.elf"], cwd=TOP,
                   check=True, capture_output=True)
    code = code_of(tmp_path / "pmuvisor.elf")
    assert not list(faults(code, plain_handlers(code)))


def test_sees_a_call(tmp_path):
    """Without the compiler's jumps the handlers are called, and that is seen."""
    subprocess.run(["make", f"BUILD={tmp_path}", "CC=gcc -fno-optimize-sibling-calls",
                    f"{tmp_path}/pmuvisor.elf"], cwd=TOP, check=True, capture_output=True)
    found = list(faults(code_of(tmp_path / "pmuvisor.elf"), ()))
    assert any("vmx_exit calls a handler" in text for text in found), found


def test_sees_a_handler_without():
    """A handler that comes to the report, by way of another function, is named."""
    code = code_of(path("build", "pmuvisor.elf"))
    assert list(faults(code, {"exit_triple_fault"})) == \
        [f"exit_triple_fault has no exit_triple_fault{THUNK}, and comes to report_guest"]
