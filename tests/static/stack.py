#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# stack.py: the greatest stack depth of the hypervisor, from the linked image's machine code: every
# path from every way in is followed, instruction by instruction, and what the code pushes is added
# up. What cannot be followed (an unnamed indirect call, recursion without a bound, a stack pointer
# that comes from elsewhere, code that no way in reaches) is an error, never a guess.
# Usage: stack.py --map MAP --source DIR ELF
import argparse
import itertools
import os
import re
import struct
import subprocess
import sys

PAGE = 4096
WORD = 8

# Ways in: function (as a pattern) and the bytes that are on the stack before its first
# instruction. The processor pushes SS, RSP, RFLAGS, CS, RIP and for some exceptions an error code
# (SDM Vol. 3, "64-Bit Mode Stack Frame"), and aligns the stack before. Stacks of STACK_PAGES, but
# for the firmware's, of which the UEFI specification promises 128 KiB ("x64 Platforms", "Detailed
# Calling Conventions"): what firmware itself needs of that in a call is not known here.
WAYS_IN = {
    "boot": [("_start", WORD)],
    "root": [
        ("vmx_exit_entry", 0),
        ("vmx_exit_entry_timed", 0),
        ("vmx_exit_entry_guarded", 0),
        ("run_started_processor", WORD),
    ],
    "fault": [("exception_[0-9]+", 7 * WORD)],
    "NMI": [("nmi_entry", 6 * WORD)],
}

# Most exceptions have no stack of their own and may come at the deepest place of any path: one that
# is reported, others in the report, REPORTS_MAX in all (vmx/root/fault.c); one that only stops; and
# one in a safe access, which is passed over.
EXCEPTIONS_BESIDE = 2
FIRMWARE_STACK = 128 * 1024

# Object files that load the stack pointer, and the stack that goes on there. "interrupted" is any
# of them: what a handler puts on the stack that it came from is added to each.
SWITCHES = {
    "vmx/start/machine.o": "root",
    "vmx/root/fault.asm.o": "interrupted",
    "nmi/nmi.asm.o": "interrupted",
}

# Where an indirect call or jump of an object file goes: to the functions whose address is taken
# (in its tables or its code) in these object files, or to this function. FIRMWARE: out of the
# image.
FIRMWARE = "firmware"
# What experiments register (include/experiment.h); nothing where none is linked.
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

# What comes before an object file's path from the top: the folder of the build.
FROM_TOP = re.compile(r"^.*?/(?=(?:boot|vmx|experiments|guest|nmi|pmu|apic|mm|console|lib|tests)/)")

# Functions that call themselves, and how many of them can be active at once.
RECURSION = {
    "ept_fill_table": 4,  # one per level of the EPT
    "get_variable_type": 41,  # each takes one of the address bits 51 to 12 away; none is left
    "overflow_stack": 1,  # of the test build: runs into the guard page, which is its purpose
}

# Address, mnemonic without its prefixes, operands.
PREFIXES = r"(?:(?:rep\w*|lock|notrack|bnd|data16|addr32|rex\S*|[c-gs]s) +)*"
LINE = re.compile(rf"^ *([0-9a-f]+):\t{PREFIXES}(\S+) *(.*?)(?: +#.*)?$")
TARGET = re.compile(r"^(?:0x)?([0-9a-f]+) <")
RIP_ADDRESS = re.compile(r"# (?:0x)?([0-9a-f]+)(?: <|$)")
IMMEDIATE = re.compile(r"^rsp,(-?)0x([0-9a-f]+)$")
DROPPED = ["add", "rsp,0x8"]
ALIGN_TO_16 = ["and", "rsp,0xfffffffffffffff0"]
# The folder whose code keeps the stack aligned to 16, for firmware (Makefile, STACK_ALIGNED_TO_16).
KEEPS_16 = "boot/"
PADDING = ("nop", "xchg ax,ax", "int3")
VISITS = 64  # of one instruction with ever more on the stack: a loop that pushes


class Unclear(Exception):
    """What the analysis cannot follow, or what it must not accept."""


class Image:
    """The linked image: instructions, symbols, which object file is where, addresses taken."""

    def __init__(self, elf, link_map):
        self.code = {}  # address: (mnemonic, operands, next address, RIP-relative operand)
        self.symbols = {}  # address: name, of what lies in .text
        self.objects = []  # (start, end, object file)
        self.taken = {}  # object file: functions whose address it takes
        with open(elf, "rb") as file:
            self.bytes = file.read()
        self.read_sections(elf)
        self.read_symbols(elf)
        self.read_map(link_map)
        self.read_code(elf)
        self.read_relocations(elf)
        self.starts = sorted(self.symbols)

    @staticmethod
    def tool(*command):
        return subprocess.run(
            command,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout

    def read_sections(self, elf):
        self.sections = {}
        for line in self.tool("readelf", "-SW", elf).splitlines():
            match = re.match(r" *\[ *\d+\] (\.\S+) +\S+ +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", line)
            if match:
                self.sections[match[1]] = tuple(int(match[n], 16) for n in (2, 3, 4))

    def inside(self, section, address):
        start, _, size = self.sections[section]
        return start <= address < start + size

    def read_symbols(self, elf):
        for line in self.tool("readelf", "-sW", elf).splitlines():
            fields = line.split()
            if len(fields) != 8 or fields[3] not in ("FUNC", "NOTYPE") or fields[6] == "ABS":
                continue
            address = int(fields[1], 16)
            # A function's name before a mere label's.
            if (
                self.inside(".text", address)
                and not fields[7].startswith("image_")
                and (fields[3] == "FUNC" or address not in self.symbols)
            ):
                self.symbols[address] = fields[7]

    def read_map(self, link_map):
        # "/DISCARD/" and debugging parts have addresses that mean nothing: only what is loaded.
        with open(link_map, encoding="utf-8") as file:
            text = re.sub(r"(\n \.\S+)\n +", r"\1 ", file.read())
        part = re.compile(r"\n \.(?:text|rodata|data)\S* +0x([0-9a-f]+) +0x([0-9a-f]+) (\S+)")
        for match in part.finditer(text):
            start, size = int(match[1], 16), int(match[2], 16)
            if size != 0 and start != 0:
                self.objects.append((start, start + size, match[3]))

    def object_of(self, address):
        """The object file's path from the project's top: "vmx/exit/exit.o"; of one from
        elsewhere its last folder and name."""
        for start, end, name in self.objects:
            if start <= address < end:
                last = "/".join(name.split("/")[-2:])
                return FROM_TOP.sub("", name) if FROM_TOP.match(name) else last
        return "?"

    def take(self, where, address):
        if address in self.symbols:
            self.taken.setdefault(self.object_of(where), set()).add(address)

    def read_code(self, elf):
        last = None
        for line in self.tool(
            "objdump", "-d", "--no-show-raw-insn", "-M", "intel", "-j", ".text", elf
        ).splitlines():
            match = LINE.match(line)
            if not match:
                continue
            address, rip = int(match[1], 16), RIP_ADDRESS.search(line)
            if last is not None:
                self.code[last][2] = address
            target = int(rip[1], 16) if rip else None
            self.code[address] = [match[2], match[3], None, target]
            if match[2] in ("lea", "mov") and target is not None:
                self.take(address, target)
            last = address

    def read_relocations(self, elf):
        for line in self.tool("readelf", "-rW", elf).splitlines():
            match = re.match(r"([0-9a-f]{16}) +\S+ R_X86_64_RELATIVE +([0-9a-f]+)", line)
            if match:
                self.take(int(match[1], 16), int(match[2], 16))

    def indirect_targets(self, name):
        """What an entry in INDIRECT stands for."""
        if name == REGISTERED:
            return set().union(
                *(taken for file, taken in self.taken.items() if re.fullmatch(REGISTERED, file))
            )
        return self.taken.get(name) or {at for at, symbol in self.symbols.items() if symbol == name}

    def name(self, address):
        """The function that an address lies in."""
        low, high = 0, len(self.starts)
        while low < high:
            middle = (low + high) // 2
            if self.starts[middle] <= address:
                low = middle + 1
            else:
                high = middle
        # A local label of NASM's or of its macros, a part that the compiler split off: the
        # function's name does.
        while low and self.symbols[self.starts[low - 1]].startswith("."):
            low -= 1
        return self.symbols[self.starts[low - 1]].split(".")[0] if low else "?"

    def jump_table(self, address):
        """Targets of "jmp reg": offsets in .rodata, relative to a table that the function names."""
        name, (start, offset, size) = self.name(address), self.sections[".rodata"]
        targets = set()
        for at, (mnemonic, _, _, table) in self.code.items():
            if (
                mnemonic != "lea"
                or table is None
                or self.name(at) != name
                or not self.inside(".rodata", table)
            ):
                continue
            while table < start + size:
                (entry,) = struct.unpack_from("<i", self.bytes, offset + table - start)
                # Each entry is relative to the table's start.
                target = entry + self.code[at][3]
                if target not in self.code or self.name(target) != name:
                    break
                targets.add(target)
                table += 4
        return targets


class Analysis:
    def __init__(self, image):
        self.image = image
        self.known = {}  # entry: (depth, path, returns)
        self.within = {}  # the same of one level of a recursion
        self.active = []  # entries whose depth is being found
        self.visited = set()
        self.switched = {}  # stack: {(address, bytes on it)}
        self.jumps = set()  # functions with a jump table
        self.cut = 0  # how often the bound of a recursion was met

    def fail(self, address, text):
        place = f"0x{address:x} ({self.image.object_of(address)})"
        raise Unclear(f"{self.image.name(address)} at {place}: {text}")

    def aligns(self, entry):
        """Whether the function at `entry` aligns the stack to 16 itself."""
        code, name, at = self.image.code, self.image.name(entry), entry
        while at in code and self.image.name(at) == name:
            if code[at][:2] == ALIGN_TO_16:
                return True
            at = code[at][2]
        return False

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
        for target in targets if not place.startswith(KEEPS_16) else ():
            if self.image.object_of(target).startswith(KEEPS_16) and not self.aligns(target):
                self.fail(
                    address,
                    f"found a call of {self.image.name(target)} with a stack aligned to 8, wanted "
                    "one aligned to 16 for firmware; give the function force_align_arg_pointer",
                )
        return targets

    def enter(self, target, address):
        """Depth, path and "comes back" of a function; None where a recursion ends."""
        if target not in self.image.code:
            self.fail(address, f"found a call to 0x{target:x}, wanted one into .text")
        if target in self.active:
            cycle = self.active[self.active.index(target) :]
            bound, name = max(
                (RECURSION.get(self.image.name(entry), 0), self.image.name(entry))
                for entry in cycle
            )
            if bound == 0:
                names = " > ".join(self.image.name(entry) for entry in cycle + [target])
                self.fail(
                    address,
                    f"found recursion without a bound: {names}; rewrite it or name "
                    f"its bound in RECURSION of {__file__}",
                )
            if sum(self.image.name(entry) == name for entry in self.active) >= bound:
                self.cut += 1
                return None
        elif target in self.known:
            return self.known[target]
        names = [self.image.name(entry) for entry in self.active]
        level = (target, *(names.count(name) for name in RECURSION))
        if level in self.within:
            self.cut += 1
            return self.within[level]
        cuts = self.cut
        self.active.append(target)
        result = self.follow(target, called=True)
        self.active.pop()
        # Inside a recursion the result holds for this level only.
        if (
            self.cut == cuts
            or target not in self.active
            and not any(self.image.name(entry) in RECURSION for entry in self.active)
        ):
            self.known[target] = result
        else:
            self.within[level] = result
        return result

    def follow(self, entry, called=False):
        """All that one entry reaches without a call: the greatest depth, and by which path."""
        image, best, returns = self.image, (0, []), False
        at_most, visits, todo = {}, {}, [(entry, 0)]
        frame = None  # the depth where RBP points, once a function has a frame
        while todo:
            address, depth = todo.pop()
            if at_most.get(address, -1 << 60) >= depth:
                continue
            if address not in image.code:
                self.fail(entry, f"found a path to 0x{address:x}, which is no instruction")
            at_most[address] = depth
            visits[address] = visits.get(address, 0) + 1
            if visits[address] > VISITS:
                self.fail(address, "found a loop that puts ever more on the stack")
            self.visited.add(address)
            mnemonic, operands, after, rip = image.code[address]
            direct = TARGET.match(operands)
            name = image.name(address)
            here = [] if name == image.name(entry) else [name]

            if (
                mnemonic == "call"
                and direct
                and image.code.get(int(direct[1], 16), [])[:2] == DROPPED
            ):
                # For the return stack buffer's sake: its target drops the return address.
                best = max(best, (depth + WORD, here))
                todo.append((int(direct[1], 16), depth + WORD))
                continue
            if mnemonic == "call":
                targets = {int(direct[1], 16)} if direct else self.indirect(address)
                goes_on = not targets  # firmware comes back
                if not targets:
                    best = max(best, (depth + WORD, here))
                for target in targets:
                    inner = self.enter(target, address)
                    goes_on |= inner is None or inner[2]
                    if inner is not None and depth + WORD + inner[0] > best[0]:
                        best = (depth + WORD + inner[0], here + inner[1])
                if goes_on:
                    todo.append((after, depth))
                continue
            if mnemonic == "jmp":
                if direct:
                    todo.append((int(direct[1], 16), depth))
                    continue
                table = image.jump_table(address)
                if table:
                    self.jumps.add(name)
                for target in table or self.indirect(address):
                    todo.append((target, depth))
                continue
            if mnemonic == "ud2":
                continue
            if mnemonic in ("ret", "iret", "iretq"):
                if mnemonic == "ret" and depth != 0 and called:
                    self.fail(address, f"found {depth} bytes on the stack at a return, wanted none")
                returns = True
                continue
            if direct and (mnemonic.startswith("j") or mnemonic.startswith("loop")):
                todo.append((int(direct[1], 16), depth))
                todo.append((after, depth))
                continue

            if mnemonic == "lea" and rip in image.symbols and image.name(rip) == name:
                todo.append((rip, depth))  # a label of NASM's: some other instruction goes there
            if (mnemonic, operands) == ("mov", "rbp,rsp"):
                frame = depth
            changed = self.effect(address, mnemonic, operands, depth, frame)
            if changed is None:
                stack = SWITCHES.get(image.object_of(address))
                if stack is None:
                    self.fail(
                        address,
                        f"found '{mnemonic} {operands}', which cannot be followed; "
                        "wanted a frame of known size, or the file in SWITCHES of "
                        f"{__file__}",
                    )
                below = re.match(r"rsp,\[\w+-0x([0-9a-f]+)\]", operands)
                self.switched.setdefault(stack, set()).add(
                    (after, int(below[1], 16) if below else 0)
                )
                continue
            depth = changed
            if depth > best[0]:
                best = (depth, here)
            todo.append((after, depth))
        return best[0], [image.name(entry)] + best[1], returns

    def effect(self, address, mnemonic, operands, depth, frame):
        """The depth after an instruction that is no branch; None: the stack pointer is loaded."""
        if mnemonic.startswith("push"):
            return depth + WORD
        if mnemonic.startswith("pop") and mnemonic != "popcnt":
            return None if operands == "rsp" else depth - WORD
        if mnemonic in ("retf", "retfq"):
            # Loads CS and goes on at the next instruction, see vmx/root/descriptors.c.
            return depth - 2 * WORD
        if mnemonic == "leave" and frame is not None:
            return frame - WORD
        if mnemonic in ("leave", "enter") or (mnemonic == "xchg" and "rsp" in operands):
            return None
        if not operands.startswith(("rsp", "esp", "sp")) or mnemonic in ("cmp", "test"):
            return depth
        amount = IMMEDIATE.match(operands)
        number = (-1 if amount[1] else 1) * int(amount[2], 16) if amount else 0
        if number >= 1 << 63:
            number -= 1 << 64
        if mnemonic in ("sub", "add") and amount:
            return depth + (number if mnemonic == "sub" else -number)
        if mnemonic == "and" and amount and -PAGE <= number < 0:
            return depth - number - WORD
        moved = re.match(r"rsp,\[rsp([+-])0x([0-9a-f]+)\]", operands)
        if mnemonic == "lea" and moved:
            return depth + (-1 if moved[1] == "+" else 1) * int(moved[2], 16)
        if frame is not None and (mnemonic, operands) == ("mov", "rsp,rbp"):
            return frame
        in_frame = re.match(r"rsp,\[rbp-0x([0-9a-f]+)\]", operands)
        if mnemonic == "lea" and in_frame and frame is not None:
            return frame + int(in_frame[1], 16)
        if mnemonic == "lea" and operands == "rsp,[r10-0x8]":
            return 0  # gcc keeps the address of the arguments in R10 where it aligns the stack
        return None


# An experiment's stack.txt: what it adds to the tables above, a line each; "FILE.o" is of its
# folder where it has no slash.
#   way_in STACK FUNCTION BYTES     switch FILE.o STACK     recursion FUNCTION NUMBER
#   row TARGET ...                  may lie over the table of handlers
#   over TARGET ...                 may lie over these rows, and calls one of them
#   indirect FILE.o TARGET ...      as INDIRECT; the target "rows" is what that table may have,
#                                   but for what lies over it
def with_experiments(image):
    table = "vmx/exit/exit.o"
    rows, over, found = set(INDIRECT.get(table, [])), set(), []
    folders = {os.path.dirname(FROM_TOP.sub("", file)) for _, _, file in image.objects}
    for folder in sorted(name for name in folders if name.startswith("experiments/")):

        def placed(word, folder=folder):
            return f"{folder}/{word}" if word.endswith(".o") and "/" not in word else word

        try:
            with open(os.path.join(folder, "stack.txt"), encoding="utf-8") as file:
                lines = [line.split() for line in file if line.strip() and line[0] != "#"]
        except FileNotFoundError:
            continue
        for kind, *words in lines:
            words = [placed(word) for word in words]
            if kind == "way_in":
                WAYS_IN[words[0]].append((words[1], int(words[2])))
            elif kind == "switch":
                SWITCHES[words[0]] = words[1]
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


def ways_in(image, patterns):
    for pattern, pushed in patterns:
        found = [address for address, name in image.symbols.items() if re.fullmatch(pattern, name)]
        if not found:
            raise Unclear(
                f"found no function {pattern}, wanted this way in; correct WAYS_IN of "
                f"{__file__}"
            )
        for address in found:
            yield address, pushed


def greatest(analysis, entries):
    deepest = (0, ["nothing"])
    for address, pushed in entries:
        depth, path, _ = analysis.follow(address)
        deepest = max(deepest, (depth + pushed, path))
    return deepest


def reached_everything(analysis):
    """What can be called indirectly has a known caller: else a way in or a target is missing."""
    image = analysis.image
    named = set().union(
        *(image.indirect_targets(name) for names in INDIRECT.values() for name in names)
    )
    for address in sorted(set().union(*image.taken.values()) - analysis.visited - named):
        analysis.fail(
            address,
            "found that its address is taken and no way to it, wanted one; "
            f"correct WAYS_IN or INDIRECT of {__file__}",
        )
    for address, (mnemonic, operands, _, _) in image.code.items():
        if (
            image.name(address) in analysis.jumps
            and address not in analysis.visited
            and not f"{mnemonic} {operands}".startswith(PADDING)
        ):
            analysis.fail(address, "found code that no entry of a jump table reaches, wanted all")


def shown(path):
    """The path's names, those that repeat once with a number."""
    runs = [(name, len(list(group))) for name, group in itertools.groupby(path)]
    return " > ".join(name if count == 1 else f"{name} x{count}" for name, count in runs)


def constant(folders, name):
    """The number that the sources define by this name."""
    found = set()
    files = [
        os.path.join(place, file)
        for folder in folders
        for place, _, names in os.walk(folder)
        for file in names
        if file.endswith((".c", ".h"))
    ]
    for file in files:
        with open(file, encoding="utf-8") as source:
            found |= set(re.findall(rf"#define {name} (\d+)", source.read()))
    if len(found) != 1:
        raise Unclear(f"found {len(found)} definitions of {name} in {folders}, wanted one")
    return int(found.pop())


def all_depths(analysis):
    """Of each stack the greatest depth and its path."""
    depths = {
        stack: greatest(analysis, list(ways_in(analysis.image, patterns)))
        for stack, patterns in WAYS_IN.items()
    }
    depths["interrupted"] = (0, [])
    done = set()
    while True:
        todo = {(stack, way) for stack, ways in analysis.switched.items() for way in ways} - done
        if not todo:
            return depths
        for stack, way in todo:
            depths[stack] = max(depths[stack], greatest(analysis, [way]))
        done |= todo


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
    sys.setrecursionlimit(10000)
    try:
        limit = constant(folders, "STACK_PAGES") * PAGE
        exceptions = constant(folders, "REPORTS_MAX") + EXCEPTIONS_BESIDE
        image = Image(arguments.elf, arguments.map)
        with_experiments(image)
        analysis = Analysis(image)
        depths = all_depths(analysis)
        reached_everything(analysis)
    except (Unclear, OSError, subprocess.CalledProcessError) as trouble:
        print(f"stack.py: {trouble}", file=sys.stderr)
        return 1
    failed = False
    # What NMIs and exceptions put on any stack, at its deepest place.
    more = depths.pop("interrupted")[0] + exceptions * depths.get("fault", (0, []))[0]
    for stack, (depth, path) in depths.items():
        size = FIRMWARE_STACK if stack == "boot" else limit
        print(
            f"  STACK {stack} stack: {depth + more} of {size} bytes ({depth}, and {more} of "
            f"exceptions and NMIs on top), deepest: {shown(path)}"
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
