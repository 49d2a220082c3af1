# SPDX-License-Identifier: BSD-2-Clause
# layers.py: who calls whom, from the objects' relocations, assembly included. Between folders no
# call goes back up (rooms.py has their order); within a folder no loop of calls has more files than
# LOOP_MAX says, and where it says nothing there is none. A call, or a jump, to a function counts;
# so does a use of data. An address that is taken of a function (a hook, a table's row) counts as
# well: who takes it is above it. The experiments are above the core and do not call each other, but
# for what one says that it needs.
# Usage: python3 -m tests.static.layers BUILD
import argparse
import collections
import os
import subprocess
import sys

from tests.static.code_lines import NOT_LINKED
from tests.static.rooms import TOP, experiments, rooms

EXPERIMENT_LOOP_MAX = 3  # its rows lie over the core's, and what they find decides what follows
LOOP_MAX = {
    "vmx/root": 4,  # a fault ends the machine, whose end may fault
    "vmx/exit": 2,  # the table and the ways to its handlers
}
NO_USE = (".text", ".debug", ".eh_frame", ".note", ".comment")  # sections; code is read by itself


def objects(build, folders, top):
    """(folder, file) of each object whose source is there, by its path."""
    found = {}
    for folder in folders:
        place = os.path.join(build, folder)
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else []:
            if name.endswith(".o"):
                source = name[:-2] if name.endswith(".asm.o") else name[:-2] + ".c"
                if os.path.exists(os.path.join(top, folder, source)):
                    found[os.path.join(place, name)] = (folder, source)
    return found


def sources(folders):
    """(folder, file) of each source that is linked."""
    return {
        (folder, name)
        for folder in folders
        for name in os.listdir(os.path.join(TOP, folder))
        if name.endswith((".c", ".asm")) and name not in NOT_LINKED
    }


def lines_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.splitlines()


def definitions(found):
    """Of each global symbol the object that defines it."""
    where = {}
    for path in found:
        for line in lines_of("nm", "--defined-only", "--extern-only", path):
            where[line.split()[-1]] = path
    return where


def uses(path):
    """(function, symbol) of each relocation in code: who uses what. Data that names functions, as a
    table of handlers does, stands for a function called "table"."""
    code = lines_of("objdump", "--disassemble", "--reloc", "--no-show-raw-insn", path)
    function = "?"
    for line in code:
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif "R_X86_64_" in line:
            yield function, symbol_of(line.split()[2])
    section = None
    for line in lines_of("objdump", "--reloc", path):
        if line.startswith("RELOCATION RECORDS FOR"):
            section = line.split("[")[1][:-2]
        elif "R_X86_64_" in line and not section.startswith(NO_USE):
            yield "table", symbol_of(line.split()[2])


def symbol_of(text):
    return text.split("+0x")[0].split("-0x")[0]


def graph(build, folders, top=TOP):
    """{(folder, file): {(folder, file): {"function -> symbol"}}} over all objects."""
    found = objects(build, folders, top)
    where = definitions(found)
    edges = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, file in found.items():
        for function, symbol in uses(path):
            target = where.get(symbol)
            if target is not None and target != path:
                edges[file][found[target]].add(f"{function} -> {symbol}")
    return found, edges


def back_up(edges, folders):
    """Each use of something in a folder further up, as a line."""
    level = {folder: number for number, folder in enumerate(folders)}
    return [
        f"{'/'.join(file)} uses {'/'.join(target)}: {', '.join(sorted(names))}"
        for file, targets in sorted(edges.items())
        for target, names in sorted(targets.items())
        if level[target[0]] < level[file[0]]
    ]


def loops(edges):
    """The loops of files: each set of files that all reach each other (Tarjan's algorithm)."""
    index, low, stack, result = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for target in edges.get(file, ()):
            if target not in index:
                visit(target)
                low[file] = min(low[file], low[target])
            elif target in stack:
                low[file] = min(low[file], index[target])
        if low[file] == index[file]:
            loop = stack[stack.index(file) :]
            del stack[stack.index(file) :]
            if len(loop) > 1:
                result.append(sorted("/".join(member) for member in loop))

    for file in sorted(edges):
        if file not in index:
            visit(file)
    return result


def too_long(longest):
    """(loop, limit) of each loop that has more files than its folder may have in one."""
    for loop in longest:
        limit = min(
            (
                EXPERIMENT_LOOP_MAX
                if file.startswith("experiments/")
                else LOOP_MAX.get(os.path.dirname(file), 1)
            )
            for file in loop
        )
        if len(loop) > limit:
            yield loop, limit


def main():
    parser = argparse.ArgumentParser(description="Checks that calls between folders go down.")
    parser.add_argument("build", help="the folder of the objects")
    arguments = parser.parse_args()
    folders = experiments() + rooms()
    found, edges = graph(arguments.build, folders)
    missing = sources(folders) - set(found.values())
    if missing:
        names = ", ".join(sorted("/".join(file) for file in missing)[:5])
        print(
            f"layers.py: found no object in {arguments.build} for {names}, wanted all; run: make",
            file=sys.stderr,
        )
        return 1
    wrong = back_up(edges, folders)
    longest = loops(edges)
    long = list(too_long(longest))
    for line in wrong:
        print(f"layers.py: back up: {line}", file=sys.stderr)
    for loop, limit in long:
        wanted = f"at most {limit}" if limit > 1 else "none"
        print(
            f"layers.py: found a loop of {len(loop)} files, wanted {wanted}: {' '.join(loop)}",
            file=sys.stderr,
        )
    count = sum(len(names) for targets in edges.values() for names in targets.values())
    print(
        f"layers.py: {len(found)} files in {len(folders)} folders, {count} uses, {len(wrong)} back "
        f"up, {len(longest)} loops ({', '.join(str(len(loop)) for loop in longest) or 'none'})"
    )
    return 1 if wrong or long else 0


if __name__ == "__main__":
    sys.exit(main())
