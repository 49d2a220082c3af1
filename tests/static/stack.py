#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# stack.py: the greatest stack depth of the hypervisor. The linked image tells who calls whom. The
# compiler tells the frame of each function (-fstack-usage: NAME.su beside NAME.o). The frames of
# assembly come from its pushes. An unnamed indirect call, recursion without a bound, a frame of
# unknown size and a function that nobody calls are errors.
# Usage: stack.py --map MAP --source DIR ELF
import argparse
import collections
import os
import re
import subprocess
import sys

PAGE = 4096
WORD = 8

# Ways in: a function (as a pattern) and the bytes on the stack before its first instruction. The
# processor pushes SS, RSP, RFLAGS, CS, RIP and for some exceptions an error code (SDM Vol. 3,
# "64-Bit Mode Stack Frame"), and aligns the stack before.
WAYS_IN = {
    "boot": [("_start", WORD)],
    "root": [
        ("vmx_exit_entry", 0),
        ("vmx_exit_entry_timed", 0),
        ("vmx_exit_entry_guarded", 0),
        ("run_started_processor", WORD),
        ("start_guest", WORD),
    ],
    "fault": [("exception_[0-9]+", 7 * WORD)],
    "NMI": [("nmi_entry", 6 * WORD)],
}

# Most exceptions have no stack of their own and may come at the deepest place of any path: one that
# is reported, others in the report, REPORTS_MAX in all (vmx/root/fault.c); one that only stops; and
# one in a safe access, which is passed over.
EXCEPTIONS_BESIDE = 2
# return_blocked (nmi/nmi.asm) puts three words on the stack to which it returns.
PUT_BY_NMI_RETURN = 3 * WORD
# UEFI promises 128 KiB ("x64 Platforms", "Detailed Calling Conventions"). Nobody knows the depth of
# the firmware's own calls.
FIRMWARE_STACK = 128 * 1024

# Object files that load the stack pointer. A stack that was not in use has a way in above.
SWITCHES = {"vmx/start/machine.o", "vmx/root/fault.asm.o", "nmi/nmi.asm.o"}

# Targets of the indirect calls and jumps of an object file: a function, or all functions whose
# address these object files take. FIRMWARE: outside the image.
FIRMWARE = "firmware"
# What experiments register (include/experiment.h). Nothing if no experiment is linked.
REGISTERED = "(experiments/.*/experiment|tests/hooks/hooks).o"
INDIRECT = {
    "boot/files.o": [FIRMWARE],
    "boot/main.o": [FIRMWARE],
    "boot/memory.o": [FIRMWARE, "has_kept_log"],
    "boot/platform.o": [FIRMWARE],
    "boot/screen.o": [FIRMWARE],
    "boot/last.o": [FIRMWARE],
    "boot/options.o": ["boot/options.o"],  # its table
    "console/log.o": ["boot/main.o", "console/serial.o", "console/framebuffer.o"],  # sinks
    "mm/guest_walk.o": ["vmx/exit/apic_trap.o"],  # how it reads an entry
    "nmi/source.o": ["nmi/source.o"],  # the host's sources
    "vmx/exit/exit.o": ["vmx/exit/exit.o"],  # the handlers' table
    "mm/page.o": ["report_pool_exhausted"],
    "vmx/root/end.o": ["nmi_request_backtrace", "report_fault"],  # its hooks
    "vmx/root/fault.asm.o": ["vmx/root/fault.o"],  # the fix-up
    "vmx/control.o": [REGISTERED],
    "vmx/settings.o": [REGISTERED],
    "vmx/start/experiments.o": [REGISTERED],
    "vmx/exit/hypercall.o": ["vmx/exit/hypercall.o", REGISTERED],  # its table
    "vmx/exit/msr.o": ["vmx/exit/msr.o"],  # the rules
    "vmx/start/machine.o": ["start_guest"],
    "vmx/start/tsc.o": ["vmx/start/tsc.o"],  # CPUID, clocks
}

# Functions that call themselves, and how many calls can be active at once.
RECURSION = {
    "ept_fill_table": 4,  # one per level of the EPT
    "get_variable_type": 41,  # each call removes one of the address bits 51 to 12
    "overflow_stack": 1,  # of the test build: runs into the guard page, which is its purpose
}

# The folder of the build, before an object file's path from the top.
FROM_TOP = re.compile(r"^.*?/(?=(?:boot|vmx|experiments|guest|nmi|pmu|apic|mm|console|lib|tests)/)")
# An instruction without its prefixes: address, mnemonic, operands, RIP-relative address.
PREFIXES = r"(?:(?:rep\w*|lock|notrack|bnd|data16|addr32|rex\S*|[c-gs]s) +)*"
LINE = re.compile(rf"^ *([0-9a-f]+):\t{PREFIXES}(\S+) *(.*?)(?: +# (?:0x)?([0-9a-f]+)(?: <.*|$))?$")
TARGET = re.compile(r"(?:0x)?([0-9a-f]+) <")
AMOUNT = re.compile(r"rsp,(?:\[rsp\+)?0x([0-9a-f]+)\]?")
ALIGN_TO_16 = ("and", "rsp,0xfffffffffffffff0")
# What the compiler's number of a function does not cover: C that loads the stack pointer, or aligns
# it to more than 16.
LOADS_STACK = re.compile(r"pop rsp$|(?:mov|xchg|and) rsp,(?!rbp$|0xf{15}0$)")
# The folder whose code needs a stack that is aligned to 16, for firmware (Makefile,
# STACK_ALIGNED_TO_16).
NEEDS_16 = "boot/"


class Unclear(Exception):
    """What the analysis cannot follow, or what it must not accept."""


def run(*command):
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env).stdout


class Image:
    """The functions of the linked image, each by its first address."""

    def __init__(self, elf, link_map):
        self.objects = []  # (start, end, path)
        self.names = {}
        self.code = {}  # function: [(address, mnemonic, operands)]
        self.function = {}  # address of an instruction: its function
        self.locked = set()  # addresses of instructions with the prefix LOCK
        self.taken = collections.defaultdict(set)  # object file: functions whose address it takes
        with open(link_map, encoding="utf-8") as file:
            text = re.sub(r"(\n \.\S+)\n +", r"\1 ", file.read())
        part = r"\n \.(?:text|rodata|data)\S* +0x([0-9a-f]+) +0x([0-9a-f]+) (\S+)"
        for match in re.finditer(part, text):
            start, size = int(match[1], 16), int(match[2], 16)
            if size and start:
                self.objects.append((start, start + size, match[3]))
        self.read_code(elf)
        relocations = run("readelf", "-rW", elf)
        for at, to in re.findall(r"(\w{16}) +\w+ R_X86_64_RELATIVE +(\w+)", relocations):
            self.take(int(at, 16), int(to, 16))
        self.frames = {}  # (object file, name): bytes as the compiler counts them
        self.by_clang = set()
        for file in {path for _, _, path in self.objects}:
            self.read_frames(file)

    def path(self, address):
        return next((path for start, end, path in self.objects if start <= address < end), "?")

    def object_of(self, address):
        """The object file's path from the top, or its last folder and name if it has no top."""
        path = self.path(address)
        last = "/".join(path.split("/")[-2:])
        return FROM_TOP.sub("", path) if FROM_TOP.match(path) else last

    def take(self, where, address):
        if address in self.code:
            self.taken[self.object_of(where)].add(address)

    def read_code(self, elf):
        uses = []
        for line in run(
            "objdump", "-d", "--no-show-raw-insn", "-Mintel", "-j.text", elf
        ).splitlines():
            label, match = re.match(r"([0-9a-f]+) <(.+)>:", line), LINE.match(line)
            # A dot in a name of NASM: a label inside a function.
            if label and not ("." in label[2] and self.path(int(label[1], 16)).endswith(".asm.o")):
                start = int(label[1], 16)
                self.names[start], self.code[start] = label[2], []
            elif match:
                address = int(match[1], 16)
                self.code[start].append((address, match[2], match[3]))
                self.function[address] = start
                if "\tlock " in line:
                    self.locked.add(address)
                if match[4] and match[2] in ("lea", "mov"):
                    uses.append((address, int(match[4], 16)))
        for use in uses:
            self.take(*use)

    def read_frames(self, path):
        try:
            with open(path.removesuffix(".o") + ".su", encoding="utf-8") as file:
                rows = [line.rstrip("\n").split("\t") for line in file]
        except FileNotFoundError:
            return
        if "clang version" in run("readelf", "-p.comment", path):
            self.by_clang.add(path)
        for place, size, kind in rows:
            if kind == "dynamic":
                raise Unclear(f"found a frame of unknown size at {place}, wanted a known size")
            key = path, place.split(":")[-1]
            self.frames[key] = max(self.frames.get(key, 0), int(size))

    def frame(self, start):
        """The frame of a function below its return address, or None without the compiler's
        number. gcc counts the return address. clang counts no arguments: here, each push may be
        one. Neither counts what `and rsp` takes to align the stack."""
        path, name = self.path(start), self.names[start]
        # The compilers leave out a clone's number.
        frame = self.frames.get((path, name), self.frames.get((path, re.sub(r"\.\d+$", "", name))))
        if frame is None:
            return None
        pushes = sum(line[1] == "push" for line in self.code[start])
        return frame + WORD * (self.aligns(start) + (pushes if path in self.by_clang else -1))

    def aligns(self, start):
        return any(line[1:] == ALIGN_TO_16 for line in self.code[start])

    def indirect_targets(self, name):
        """What an entry in INDIRECT stands for."""
        if name == REGISTERED:
            files = [file for file in self.taken if re.fullmatch(REGISTERED, file)]
            return set().union(*(self.taken[file] for file in files))
        return self.taken.get(name) or {at for at, symbol in self.names.items() if symbol == name}


class Analysis:
    def __init__(self, image):
        self.image = image
        self.known = {}  # function: (depth, path)
        self.active = []  # functions whose depth is being found

    def fail(self, address, text):
        name = self.image.names[self.image.function[address]]
        raise Unclear(f"{name} at 0x{address:x} ({self.image.object_of(address)}): {text}")

    def indirect(self, address):
        """Where an indirect call or jump goes; nothing for firmware."""
        place = self.image.object_of(address)
        if place not in INDIRECT:
            self.fail(
                address,
                "found an indirect call, wanted one of a file in INDIRECT of "
                f"{__file__}; name there where it goes",
            )
        targets = set()
        for name in INDIRECT[place]:
            found = self.image.indirect_targets(name)
            if name not in (FIRMWARE, REGISTERED) and not found:
                self.fail(
                    address,
                    f"found no function whose address is taken for {name}, wanted "
                    f"some; correct INDIRECT of {__file__}",
                )
            targets |= found
        for target in targets if not place.startswith(NEEDS_16) else ():
            in_boot = self.image.object_of(target).startswith(NEEDS_16)
            if in_boot and not self.image.aligns(target):
                self.fail(
                    address,
                    f"found a call of {self.image.names[target]} with a stack aligned to 8, wanted "
                    "one aligned to 16 for firmware; give the function force_align_arg_pointer",
                )
        return targets

    def targets(self, address, mnemonic, operands, before):
        """Where a branch goes: addresses, none for firmware."""
        direct = TARGET.match(operands)
        if direct:
            return {int(direct[1], 16)}
        # The compiler adds the entry of a jump table to the table's address.
        if mnemonic == "jmp" and before[1] == "add" and before[2].startswith(f"{operands},"):
            return set()
        return self.indirect(address)

    def compiled(self, start, frame):
        """(bytes on the stack, target) of each way out of a function of C, and its frame."""
        before, ways = (0, "", ""), []
        for line in self.image.code[start]:
            address, mnemonic, operands = line
            if mnemonic == "call" or mnemonic.startswith("j"):
                for target in self.targets(*line, before) or [None]:
                    if mnemonic == "call":
                        ways.append((frame + WORD, target))
                    elif self.image.function.get(target) != start:
                        ways.append((0, target))
            elif LOADS_STACK.match(f"{mnemonic} {operands}"):
                self.check_switch(*line)
            before = line
        return ways, frame

    def check_switch(self, address, mnemonic, operands):
        if self.image.object_of(address) not in SWITCHES:
            self.fail(
                address,
                f"found '{mnemonic} {operands}', which cannot be followed; wanted a frame of known "
                f"size, or the file in SWITCHES of {__file__}",
            )

    def assembled(self, start):
        """The same of a function of assembly, in which each path is followed."""
        code, ways = self.image.code[start], []
        after = dict(zip((line[0] for line in code), (line[0] for line in code[1:])))
        after[code[-1][0]] = next((at for at in self.image.function if at > code[-1][0]), None)
        instructions = {line[0]: line[1:] for line in code}
        depths, todo = {}, [(start, 0)]
        while todo:
            address, depth = todo.pop()
            if address not in instructions:
                ways.append((depth, address))
                continue
            if address in depths:
                if depths[address] != depth:
                    self.fail(address, f"found {depths[address]} bytes on the stack and {depth}")
                continue
            depths[address] = depth
            mnemonic, operands = instructions[address]
            if mnemonic in ("ret", "iretq", "ud2"):
                if mnemonic == "ret" and depth:
                    self.fail(address, f"found {depth} bytes on the stack at a return, wanted none")
                continue
            if mnemonic.startswith(("j", "loop", "call")):
                targets = self.targets(address, mnemonic, operands, (0, "", ""))
                inside = targets & instructions.keys() - {start}
                if mnemonic != "call":
                    todo += [(target, depth) for target in targets]
                elif inside:
                    # MITIGATE_EXIT: the label drops the return address.
                    todo += [(target, depth + WORD) for target in inside]
                else:
                    ways += [(depth + WORD, target) for target in targets or [None]]
                goes_on = after[address] in instructions and not inside
                if mnemonic == "jmp" or mnemonic == "call" and not goes_on:
                    continue
            change = self.effect(mnemonic, operands)
            if change is None:
                self.check_switch(address, mnemonic, operands)
            else:
                todo.append((after[address], depth + change))
        return ways, max(depths.values())

    @staticmethod
    def effect(mnemonic, operands):
        """What an instruction puts on the stack; None if it loads the stack pointer."""
        if mnemonic.startswith("push"):
            return WORD
        if mnemonic in ("pop", "popf", "popfq", "retf", "retfq"):
            # A far return goes on at the next instruction, see vmx/root/descriptors.c.
            return -2 * WORD if mnemonic.startswith("ret") else -WORD
        if not operands.startswith(("rsp", "esp", "sp")) or mnemonic in ("cmp", "test"):
            return 0
        if (mnemonic, operands) == ALIGN_TO_16:
            return WORD
        amount = AMOUNT.fullmatch(operands)
        number = int(amount[1], 16) if amount else 0
        return {"sub": number, "add": -number, "lea": -number}.get(mnemonic) if amount else None

    def depth(self, start):
        """The greatest depth below a function's return address, and its path."""
        names = self.image.names
        if start in self.active:
            cycle = self.active[self.active.index(start) :] + [start]
            self.fail(
                self.active[-1],
                f"found recursion without a bound: {' > '.join(names[entry] for entry in cycle)}; "
                f"rewrite it or name its bound in RECURSION of {__file__}",
            )
        if start in self.known:
            return self.known[start]
        self.active.append(start)
        frame = self.image.frame(start)
        ways, own = self.assembled(start) if frame is None else self.compiled(start, frame)
        times = RECURSION.get(names[start], 1)
        best = (own, [])
        for on_stack, target in ways:
            entry = self.image.function.get(target)
            if target is not None and entry is None:
                self.fail(start, f"found a way to 0x{target:x}, wanted one into .text")
            if target is None:
                best = max(best, (on_stack, []))
            elif entry != start or names[start] not in RECURSION:
                deeper, path = self.depth(entry)
                best = max(best, (on_stack + deeper, path))
        self.active.pop()
        name = names[start] if times == 1 else f"{names[start]} x{times}"
        self.known[start] = (best[0] + (times - 1) * (own + WORD), [name] + best[1])
        return self.known[start]


# An experiment's stack.txt adds to the tables above. FILE.o without a slash lies in its folder.
#   way_in STACK FUNCTION BYTES     switch FILE.o     recursion FUNCTION NUMBER
#   row TARGET ...                  may lie over the table of handlers
#   over TARGET ...                 may lie over these rows, and calls one of them
#   indirect FILE.o TARGET ...      as INDIRECT; the target "rows" is what that table may have,
#                                   but for what lies over it
def add_experiments(image):
    table = "vmx/exit/exit.o"
    rows, over, found = set(INDIRECT.get(table, [])), set(), []
    folders = {os.path.dirname(FROM_TOP.sub("", file)) for _, _, file in image.objects}
    for folder in sorted(name for name in folders if name.startswith("experiments/")):
        try:
            with open(os.path.join(folder, "stack.txt"), encoding="utf-8") as file:
                lines = [line.split() for line in file if line.strip() and line[0] != "#"]
        except FileNotFoundError:
            continue
        for kind, *words in lines:
            words = [
                f"{folder}/{word}" if word.endswith(".o") and "/" not in word else word
                for word in words
            ]
            if kind == "way_in":
                WAYS_IN[words[0]].append((words[1], int(words[2])))
            elif kind == "switch":
                SWITCHES.update(words)
            elif kind == "recursion":
                RECURSION[words[0]] = int(words[1])
            elif kind == "row":
                rows |= set(words)
            elif kind == "over":
                over |= set(words)
            elif kind == "indirect":
                found.append(words)
            else:
                raise Unclear(
                    f"found {kind} in {folder}/stack.txt, wanted way_in, switch, "
                    "recursion, row, over or indirect"
                )
    if rows | over:
        INDIRECT[table] = sorted(rows | over)
    for file, *targets in found:
        targets = {*INDIRECT.get(file, []), *targets}
        INDIRECT[file] = sorted(targets - {"rows"} | (rows if "rows" in targets else set()))


def greatest(analysis, patterns):
    """The greatest depth of a stack, and its path."""
    depths = []
    for pattern, pushed in patterns:
        found = [at for at, name in analysis.image.names.items() if re.fullmatch(pattern, name)]
        if not found:
            raise Unclear(
                f"found no function {pattern}, wanted this way in; correct WAYS_IN of "
                f"{__file__}"
            )
        for start in found:
            depth, path = analysis.depth(start)
            depths.append((depth + pushed, path))
    return max(depths)


def check_all_reached(analysis):
    """Each function whose address is taken has a known caller. Else a way in or a target is
    missing."""
    image = analysis.image
    named = set().union(
        *(image.indirect_targets(name) for names in INDIRECT.values() for name in names)
    )
    for address in sorted(set().union(*image.taken.values()) - analysis.known.keys() - named):
        analysis.fail(
            address,
            "found that its address is taken and no way to it, wanted one; "
            f"correct WAYS_IN or INDIRECT of {__file__}",
        )


def constant(folders, name):
    """The number that the sources define by this name."""
    found = re.findall(rf"#define {name} (\d+)", run("grep", "-rhw", name, *folders))
    if len(found) != 1:
        raise Unclear(f"found {len(found)} definitions of {name} in {folders}, wanted one")
    return int(found[0])


def main():
    parser = argparse.ArgumentParser(description="Finds the greatest stack depth.")
    parser.add_argument("elf")
    parser.add_argument("--map", required=True, help="the linker's map of it")
    parser.add_argument(
        "--source",
        action="append",
        help="a folder with STACK_PAGES or REPORTS_MAX; default: vmx and include",
    )
    arguments = parser.parse_args()
    folders = arguments.source or ["vmx", "include"]
    try:
        limit = constant(folders, "STACK_PAGES") * PAGE
        exceptions = constant(folders, "REPORTS_MAX") + EXCEPTIONS_BESIDE
        image = Image(arguments.elf, arguments.map)
        add_experiments(image)
        analysis = Analysis(image)
        depths = {stack: greatest(analysis, patterns) for stack, patterns in WAYS_IN.items()}
        check_all_reached(analysis)
    except (Unclear, OSError, subprocess.CalledProcessError) as trouble:
        print(f"stack.py: {trouble}", file=sys.stderr)
        return 1
    failed = False
    # What NMIs and exceptions put on any stack, at its deepest place.
    more = PUT_BY_NMI_RETURN + exceptions * depths.get("fault", (0, []))[0]
    for stack, (depth, path) in depths.items():
        size = FIRMWARE_STACK if stack == "boot" else limit
        print(
            f"  STACK {stack} stack: {depth + more} of {size} bytes ({depth}, and {more} of "
            f"exceptions and NMIs on top), deepest: {' > '.join(path)}"
        )
        if depth + more > size:
            print(
                f"stack.py: found {depth + more} bytes on the {stack} stack, wanted at most "
                f"{size}; make frames or paths smaller",
                file=sys.stderr,
            )
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
