# SPDX-License-Identifier: BSD-2-Clause
# nmi_context.py: the rules of NMI context (CONTRIBUTING.md), looked for in the machine code of the
# linked image. All functions that nmi_root() reaches are checked, through calls and through the
# table of sources. None may have a VMREAD, a VMWRITE, an IRET or a lock's instruction, none may
# call what prints or locks, and none may lie in a file that is not named here. What cannot be
# followed is an error, never a guess.
# Usage: python3 -m tests.static.nmi_context BUILD
import argparse
import os
import re
import subprocess
import sys

from tests.static import stack

START = "nmi_root"

# The files that may run in NMI context. One that is not reached any more has no row.
FILES = {
    "nmi/nmi.c": "NMI context, all of it",
    "nmi/source.c": "NMI context, all of it",
    "pmu/guest_pmi.c": "NMI context, all of it",
    "apic/apic.c": "reads and writes the local APIC, and keeps nothing",
}

# The end of the machine, or of the processor: nothing goes on after it, so no rule holds on it.
# They are looked at only for whether they really do not come back.
ENDS = {
    "hypervisor_fault": "an NMI interrupted the NMI handler; it prints why, and stops the machine",
    "processor_end": "another processor has stopped this one",
    "vmcs_access_failed": "a VMREAD or VMWRITE of pmu/guest_pmi.c failed: a defect, and a fault",
}

# Instructions that break a rule, by mnemonic. XCHG with memory is how a lock is taken here
# (console/log.c); LOCK CMPXCHG may be one.
RULES = [
    (re.compile(r"vm(read|write)\b"), "an access to the VMCS"),
    (re.compile(r"iret"), "an IRET"),
    (re.compile(r"(lock )?xchg .*\["), "an exchange with memory, which takes a lock"),
    (re.compile(r"lock (cmpxchg|bts)"), "a compare-exchange, which may take a lock"),
]
EXCEPTIONS = {
    ("pmu/guest_pmi.c", "an access to the VMCS"): "the guest's IA32_DEBUGCTL; its head says why",
    (
        "nmi/source.c",
        "a compare-exchange, which may take a lock",
    ): "takes a request out of the notes; fails only where another one has changed them",
}

# What must not be called: it prints, or takes the log's lock.
PRINTS = {"log_printf", "log_print_tail", "log_read", "log_move_ring", "log_finish"}


class Code:
    """The functions of the linked image."""

    def __init__(self, elf, link_map):
        self.image = stack.Image(elf, link_map)
        self.analysis = stack.Analysis(self.image)
        self.starts = {name: start for start, name in self.image.names.items()}

    def file(self, start):
        place = self.image.object_of(start).removesuffix(".o")
        return place if place.endswith(".asm") else place + ".c"

    def targets(self, start):
        """The functions that a function calls or jumps to."""
        ways, _ = self.analysis.compiled(start, 0)
        return {self.image.function[target] for _, target in ways if target is not None}

    def texts(self, start):
        """The instructions of a function."""
        for address, mnemonic, operands in self.image.code[start]:
            lock = "lock " if address in self.image.locked else ""
            yield f"{lock}{mnemonic} {operands}"

    def comes_back(self, start):
        """Whether a function may return. The compiler leaves nothing after a call that does not."""
        if any(mnemonic in ("ret", "iretq") for _, mnemonic, _ in self.image.code[start]):
            return True
        ends = [line for line in self.image.code[start] if line[1] == "jmp"]
        outside = {
            self.image.function[target]
            for line in ends
            for target in self.analysis.targets(*line, (0, "", ""))
        }
        return any(self.comes_back(target) for target in outside - {start})


def broken(code):
    """A line for each rule that is broken, and for each row that does not apply."""
    for name in sorted({*ENDS, *PRINTS} - code.starts.keys()):
        yield f"found no function {name}, wanted it; correct ENDS or PRINTS"
    used = set()
    seen, todo = set(), [(code.starts[START], START)]
    while todo:
        start, caller = todo.pop()
        name, file = code.image.names[start], code.file(start)
        if name in ENDS:
            used.add(name)
            continue
        if name in PRINTS:
            yield f"{caller} reaches {name}(), which prints or takes the log's lock"
            continue
        if start in seen:
            continue
        seen.add(start)
        if file not in FILES:
            yield f"{caller} reaches {name}() in {file}, wanted a file of FILES"
            continue
        used.add(file)
        for text in code.texts(start):
            for rule, what in RULES:
                if rule.match(text):
                    if (file, what) in EXCEPTIONS:
                        used.add((file, what))
                    else:
                        yield f"{name}() in {file} has {what}: {text}"
        todo += [(target, name) for target in code.targets(start)]
    for row in [*FILES, *ENDS, *EXCEPTIONS]:
        if row not in used:
            yield f"found no use of the row {row}, wanted one; strike it"
    for name in ENDS:
        if name in code.starts and code.comes_back(code.starts[name]):
            yield f"{name}() is in ENDS, and may come back"


def main():
    parser = argparse.ArgumentParser(description="Checks the rules of NMI context.")
    parser.add_argument("build", help="the folder of pmuvisor.elf and of its map")
    arguments = parser.parse_args()
    image = os.path.join(arguments.build, "pmuvisor")
    try:
        wrong = list(broken(Code(f"{image}.elf", f"{image}.map")))
    except (stack.Unclear, KeyError, OSError, subprocess.CalledProcessError) as trouble:
        wrong = [f"{trouble}"]
    for line in wrong:
        print(f"nmi_context.py: {line}", file=sys.stderr)
    if not wrong:
        print(f"nmi_context.py: {len(FILES)} files, {len(ENDS)} ends, {len(EXCEPTIONS)} exceptions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
