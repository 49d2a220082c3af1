# SPDX-License-Identifier: BSD-2-Clause
# memory_cache.py: a trace fed to Valgrind's cache simulator, cachegrind. That one reads no traces:
# it simulates the caches of a program that it runs. So each access becomes an instruction of a
# program that does nothing else, of the same size and at the same place in its page and in the
# caches.
import collections
import pathlib
import re
import subprocess
import tempfile

from experiments.memory.analysis import memory_feed

PAGE = 4096
# Valgrind's clients reach no address of Linux's stack. 40 bits keep a process's regions apart.
PLACE, PLACE_MASK = 0x1000_0000_0000, (1 << 40) - 1
CODE = 0x0800_0000_0000
MMAP, EXIT = 9, 60  # Linux, arch/x86/entry/syscalls/syscall_64.tbl
READ_WRITE, PRIVATE_FIXED_ANONYMOUS = 3, 0x32
SIZES = (16, 8, 4, 2, 1)
# Valgrind leaves out a load whose value nobody uses.
READS = {
    16: "movups (%rdi),%xmm1\npaddb %xmm1,%xmm0",
    8: "add (%rdi),%rax",
    4: "add (%rdi),%eax",
    2: "add (%rdi),%ax",
    1: "add (%rdi),%al",
}
WRITES = {
    16: "movups %xmm0,(%rdi)",
    8: "mov %rax,(%rdi)",
    4: "mov %eax,(%rdi)",
    2: "mov %ax,(%rdi)",
    1: "mov %al,(%rdi)",
}
BOTH = {8: "addq $0,(%rdi)", 4: "addl $0,(%rdi)", 2: "addw $0,(%rdi)", 1: "addb $0,(%rdi)"}

# Of one group of accesses: references and misses of the first level's data cache.
Misses = collections.namedtuple("Misses", "reads read_misses writes write_misses")


class NoCachegrind(Exception):
    """The text says what is missing, or what went wrong."""


def pieces(access, physical):
    """Yields (address, bytes) of at most 16 bytes, as few as there can be."""
    first = memory_feed.address(access, physical)
    if first is None:
        return
    for at, count in memory_feed.parts(access):
        while count > 0:
            size = next(
                size
                for size in SIZES
                if size <= count and (size < 16 or not (access.read and access.write))
            )
            yield first + at, size
            at, count = at + size, count - size


def moved(address):
    return PLACE + (address & PLACE_MASK)


def program(accesses, group, physical=False):
    """Takes accesses and the function from one to its group's name, a C identifier; gives the
    program as GNU assembler's text. A function's name is its group's, and a number. ValueError: two
    pages become one.
    """
    pages, body, last, functions, label = {}, [], None, 0, "_start"
    for access in accesses:
        for address, size in pieces(access, physical):
            for page in range(address // PAGE, (address + size - 1) // PAGE + 1):
                if pages.setdefault(moved(page * PAGE), page) != page:
                    raise ValueError(
                        f"the pages 0x{page * PAGE:x} and 0x{pages[moved(page * PAGE)] * PAGE:x} "
                        f"have one place"
                    )
            name = group(access)
            if name != last:
                last, functions = name, functions + 1
                # Without its size Valgrind does not know a function.
                body += [
                    f".size {label}, .-{label}",
                    f".type {name}_{functions},@function",
                    f"{name}_{functions}:",
                ]
                label = f"{name}_{functions}"
            kinds = BOTH if access.read and access.write else WRITES if access.write else READS
            body += [f"movabs ${moved(address):#x},%rdi", kinds[size]]
    setup = []
    for page in sorted(pages):
        setup += [
            f"mov ${MMAP},%eax",
            f"movabs ${page:#x},%rdi",
            f"mov ${PAGE},%esi",
            f"mov ${READ_WRITE},%edx",
            f"mov ${PRIVATE_FIXED_ANONYMOUS},%r10d",
            "mov $-1,%r8",
            "xor %r9d,%r9d",
            "syscall",
        ]
    return (
        "\n".join(
            [
                ".globl _start",
                ".type _start,@function",
                "_start:",
                *setup,
                *body,
                f".size {label}, .-{label}",
                "mov %rax,%r12",  # used
                f"mov ${EXIT},%eax",
                "xor %edi,%edi",
                "syscall",
                # Without a writable segment Valgrind reads no names.
                ".data",
                ".quad 0",
                '.section .note.GNU-stack,"",@progbits',
            ]
        )
        + "\n"
    )


def run(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoCachegrind(f"{command[0]}: not found; install valgrind and binutils") from error
    if done.returncode:
        raise NoCachegrind(
            f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}"
        )


def counts(text):
    """Takes the text of a cachegrind.out; gives {function: Misses}."""
    columns, found, name = [], collections.defaultdict(lambda: [0] * 4), None
    for line in text.splitlines():
        if line.startswith("events:"):
            columns = [line.split()[1:].index(event) for event in ("Dr", "D1mr", "Dw", "D1mw")]
        elif line.startswith("fn="):
            name = line[3:]
        elif name and re.match(r"\d+ ", line):
            values = [int(word) for word in line.split()[1:]]
            for place, column in enumerate(columns):
                found[name][place] += values[column] if column < len(values) else 0
    return {name: Misses(*each) for name, each in found.items()}


def simulate(command, cache):
    """Takes a command and cachegrind's word for the first level's data cache, "bytes,ways,line";
    gives counts()."""
    with tempfile.TemporaryDirectory() as folder:
        run(
            [
                "valgrind",
                "--tool=cachegrind",
                "--cache-sim=yes",
                f"--D1={cache}",
                "--cachegrind-out-file=out",
                *command,
            ],
            folder,
        )
        return counts((pathlib.Path(folder) / "out").read_text(encoding="utf-8"))


def misses(accesses, cache, group=lambda access: "all", physical=False):
    """Takes accesses in order, the cache, and each one's group; gives {group: Misses}."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "fed.s").write_text(
            program(accesses, group, physical), encoding="ascii"
        )
        run(["as", "-o", "fed.o", "fed.s"], folder)
        run(["ld", f"-Ttext={CODE:#x}", "-o", "fed", "fed.o"], folder)
        by_function = simulate([str(pathlib.Path(folder) / "fed")], cache)
    found = collections.defaultdict(lambda: [0] * 4)
    for name, each in by_function.items():
        if name.rpartition("_")[0]:
            for place, value in enumerate(each):
                found[name.rpartition("_")[0]][place] += value
    return {name: Misses(*each) for name, each in found.items()}
