# SPDX-License-Identifier: BSD-2-Clause
# nmi_context.py: the rules of NMI context (CONTRIBUTING.md), looked for in the machine code. From
# nmi_root() every instruction is followed that can come next, in all objects of the build, through
# calls and through the table of sources. None may be a VMREAD, a VMWRITE, an IRET or a lock's, none
# may call what prints or locks, and none may lie in a file that is not named here. What cannot be
# followed is an error, never a guess.
# Usage: python3 -m tests.static.nmi_context BUILD
import argparse
import collections
import os
import re
import subprocess
import sys

from tests.static.layers import objects
from tests.static.rooms import TOP, rooms

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

# Indirect calls: of each file the table that they go through. A row's functions are what it names.
TABLES = {"nmi/source.c": "sources"}

INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*?)\s*$")
RELOCATION = re.compile(r"^\s+([0-9a-f]+): (R_X86_64_\w+)\s+(\S+?)([+-]0x[0-9a-f]+)?$")
DIRECT = re.compile(r"^(?:0x)?([0-9a-f]+)(?: <.*>)?$")
PREFIX = re.compile(r"^(?:(?:rep\w*|notrack|bnd|data16|addr32|cs|ds|es|fs|gs|ss) )+")

Place = collections.namedtuple("Place", "file section offset")
Instruction = collections.namedtuple("Instruction", "text after relocation")


class Unclear(Exception):
    """What cannot be followed, or is not as this file says."""


def lines_of(*command):
    return subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout.splitlines()


class Code:
    """The instructions and symbols of all objects."""

    def __init__(self, files):
        self.at = {}  # Place: Instruction
        self.names = {}  # (file, symbol): Place and size
        self.globals = {}  # symbol: Place
        self.tables = {}  # (file, section): [(offset, symbol, addend)]
        self.sources = {str(path): file for file, path in files.items()}
        self.read_symbols()
        self.read_code()
        self.read_tables()
        self.functions = collections.defaultdict(list)
        for (file, name), (place, _) in self.names.items():
            self.functions[file, place.section].append((place.offset, name))

    def dump(self, *options):
        """(source, line) of what objdump says of all objects."""
        file = None
        for line in lines_of("objdump", *options, *self.sources):
            if line.endswith(":     file format elf64-x86-64"):
                file = self.sources[line.split(":     file format")[0]]
            else:
                yield file, line

    def read_symbols(self):
        for file, line in self.dump("-t"):
            match = re.match(
                r"([0-9a-f]{16}) (.{7}) (\S+)\t([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", line
            )
            if not match or match[3].startswith("*") or "f" in match[2]:
                continue
            place = Place(file, match[3], int(match[1], 16))
            self.names[file, match[5]] = (place, int(match[4], 16))
            if match[2][0] in "gu" or "w" in match[2]:
                self.globals[match[5]] = place

    def read_code(self):
        section, last = None, None
        for file, line in self.dump("-dr", "--no-show-raw-insn", "-M", "intel"):
            if line.startswith("Disassembly of section "):
                section, last = line.split()[3].rstrip(":"), None
                continue
            match = INSTRUCTION.match(line)
            if match:
                place = Place(file, section, int(match[1], 16))
                if last is not None:
                    self.at[last] = self.at[last]._replace(after=place)
                text = PREFIX.sub("", re.sub(r" +#.*", "", re.sub(r"\s+", " ", match[2])))
                self.at[place] = Instruction(text, None, None)
                last = place
                continue
            match = RELOCATION.match(line)
            if match and last is not None:
                self.at[last] = self.at[last]._replace(
                    relocation=(match[2], match[3], int(match[4] or "0", 16))
                )

    def read_tables(self):
        section = None
        for file, line in self.dump("-r"):
            if line.startswith("RELOCATION RECORDS FOR"):
                section = line.split("[")[1][:-2]
            match = re.match(r"([0-9a-f]+) R_X86_64_64\s+(\S+?)([+-]0x[0-9a-f]+)?$", line)
            if match:
                self.tables.setdefault((file, section), []).append(
                    (int(match[1], 16), match[2], int(match[3] or "0", 16))
                )

    def resolve(self, file, symbol, addend):
        """Where a symbol lies, or nothing where no object has it: the firmware's library."""
        if (file, symbol) in self.names:
            place = self.names[file, symbol][0]
            return place._replace(offset=place.offset + addend)
        if symbol.startswith("."):
            return Place(file, symbol, addend)
        place = self.globals.get(symbol)
        return place and place._replace(offset=place.offset + addend)

    def name(self, place):
        before = [
            (offset, name)
            for offset, name in self.functions[place.file, place.section]
            if offset <= place.offset and not name.startswith(".")
        ]
        return max(before)[1] if before else "?"

    def rows(self, file):
        """The functions that the table of this file names."""
        if file not in TABLES:
            return None
        if (file, TABLES[file]) not in self.names:
            raise Unclear(f"found no table {TABLES[file]} in {file}, wanted it; correct TABLES")
        table, size = self.names[file, TABLES[file]]
        found = {
            self.resolve(file, symbol, addend)
            for offset, symbol, addend in self.tables.get((file, table.section), ())
            if table.offset <= offset < table.offset + size
        }
        return {place for place in found if place in self.at}

    def target(self, place):
        """Of a call or jump: where it goes, as a set."""
        text, _, relocation = self.at[place]
        operand = text.split(" ", 1)[1] if " " in text else ""
        direct = DIRECT.match(operand)
        if direct and relocation:
            found = self.resolve(place.file, relocation[1], relocation[2] + 4)
            if found is None:
                raise Unclear(
                    f"{self.name(place)} in {place.file} goes to {relocation[1]}, which "
                    "is in no object"
                )
            return {found}
        if direct:
            return {place._replace(offset=int(direct[1], 16))}
        found = self.rows(place.file)
        if not found:
            raise Unclear(
                f"{self.name(place)} in {place.file}: found the indirect '{text}', wanted "
                "one by a table of TABLES"
            )
        return found


def successors(code, place, called=None):
    """What may be executed after this instruction. `called` says whether a call comes back."""
    text, after, _ = code.at[place]
    mnemonic = text.split(" ")[0]
    if mnemonic in ("ud2", "ret", "retf", "retfq", "iret", "iretq"):
        return set()
    if mnemonic == "jmp":
        return code.target(place)
    if mnemonic == "call":
        targets = code.target(place)
        back = called is None or any(called(target) for target in targets)
        return targets | ({after} if back else set())
    found = {after}
    if mnemonic.startswith(("j", "loop")):
        found |= code.target(place)
    return found


def comes_back(code, start):
    """Whether a function may return. An indirect call is taken as one that does."""
    known = {}

    def returns(entry):
        if entry in known:
            return known[entry]
        known[entry] = False  # so far; a recursion comes back by another way or not at all
        seen, todo = set(), [entry]
        while todo:
            place = todo.pop()
            if place is None or place in seen or place not in code.at:
                continue
            seen.add(place)
            text, after, _ = code.at[place]
            mnemonic = text.split(" ")[0]
            if mnemonic in ("ret", "iret", "iretq"):
                known[entry] = True
                return True
            if mnemonic == "call":
                try:
                    back = any(returns(target) for target in code.target(place))
                except Unclear:
                    back = True
                if back:
                    todo.append(after)
                continue
            try:
                todo += successors(code, place)
            except Unclear:
                known[entry] = True
                return True
        return known[entry]

    return returns(start)


def broken(code):
    """A line for each rule that is broken, and for each row that does not apply."""
    ends = {code.globals[name]: name for name in ENDS if name in code.globals}
    prints = {code.globals[name]: name for name in PRINTS if name in code.globals}
    for name in sorted({*ENDS, *PRINTS} - code.globals.keys()):
        yield f"found no function {name}, wanted it; correct ENDS or PRINTS"
    used = set()
    seen, todo = set(), [(code.globals[START], START)]
    while todo:
        place, caller = todo.pop()
        if place in ends:
            used.add(ends[place])
            continue
        if place in prints:
            yield f"{caller} reaches {prints[place]}(), which prints or takes the log's lock"
            continue
        if place in seen:
            continue
        seen.add(place)
        if place is None:
            yield f"{caller} runs on after the end of its section"
            continue
        if place not in code.at:
            raise Unclear(
                f"{caller} goes to {place.file}, {place.section}+0x{place.offset:x}, "
                "which is no instruction"
            )
        here = code.name(place)
        if place.file not in FILES:
            yield f"{caller} reaches {here}() in {place.file}, wanted a file of FILES"
            continue
        used.add(place.file)
        for rule, what in RULES:
            if rule.match(code.at[place].text):
                if (place.file, what) in EXCEPTIONS:
                    used.add((place.file, what))
                else:
                    yield f"{here}() in {place.file} has {what}: {code.at[place].text}"
        for after in successors(code, place, called=lambda target: target not in ends):
            todo.append((after, here))
    for row in [*FILES, *ENDS, *EXCEPTIONS]:
        if row not in used:
            yield f"found no use of the row {row}, wanted one; strike it"
    for place, name in ends.items():
        if comes_back(code, place):
            yield f"{name}() is in ENDS, and may come back"


def files_of(build, folders=None):
    """{source: object} of the hypervisor."""
    return {
        f"{folder}/{source}": path
        for path, (folder, source) in objects(build, folders or rooms(), TOP).items()
    }


def main():
    parser = argparse.ArgumentParser(description="Checks the rules of NMI context.")
    parser.add_argument("build", help="the folder of the objects")
    arguments = parser.parse_args()
    try:
        code = Code(files_of(arguments.build))
        wrong = list(broken(code))
    except (Unclear, KeyError, subprocess.CalledProcessError) as trouble:
        wrong = [f"{trouble}"]
    for line in wrong:
        print(f"nmi_context.py: {line}", file=sys.stderr)
    if not wrong:
        print(f"nmi_context.py: {len(FILES)} files, {len(ENDS)} ends, {len(EXCEPTIONS)} exceptions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
