# SPDX-License-Identifier: BSD-2-Clause
# mapped.py: of perf's records of mappings, and the files themselves: which function and which
# instructions are at which address of the program that was sampled. binutils read the files.
import bisect
import collections
import functools
import os
import re
import subprocess

Mapping = collections.namedtuple("Mapping", "start size offset file")
RECORD = re.compile(
    r"PERF_RECORD_MMAP2? .*\[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*\]: r-xp (/\S+)$"
)


def mappings(lines):
    """Those of code, each once."""
    found = (RECORD.search(line) for line in lines)
    return sorted(
        {Mapping(*(int(word, 16) for word in one.groups()[:3]), one[4]) for one in found if one}
    )


def said(*command):
    # readelf's status is not 0 where it only warns.
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    ).stdout


@functools.cache
def segments(path):
    """[(offset, address, size)] of those with code."""
    return [
        tuple(int(word, 16) for word in one)
        for one in re.findall(
            r"^ +LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ R E",
            said("readelf", "-W", "--program-headers", path),
            re.M,
        )
    ]


@functools.cache
def functions(path):
    """[(first, end, name)]: by the symbols; a stripped file's by .eh_frame, which has each
    function's range."""
    named = [
        (int(at, 16), int(at, 16) + int(size, 16), name)
        for at, size, name in re.findall(
            r"^([0-9a-f]+) ([0-9a-f]+) [TtWi] ([\w.]+)", said("nm", "-S", path), re.M
        )
    ]
    if named:
        return named
    names = {
        int(at, 16): name
        for at, name in re.findall(
            r"^([0-9a-f]+) [TtWi] ([\w.]+)", said("nm", "--dynamic", "--defined-only", path), re.M
        )
    }
    frames = re.findall(
        r" FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$",
        said("readelf", "--debug-dump=frames", path),
        re.M,
    )
    return [
        (int(first, 16), int(end, 16), names.get(int(first, 16), f"fn_{int(first, 16):x}"))
        for first, end in frames
    ]


@functools.cache
def instructions(path):
    return [
        int(at, 16)
        for at in re.findall(
            r"^ +([0-9a-f]+):\t", said("objdump", "-d", "--no-show-raw-insn", path), re.M
        )
    ]


def file_of(mapping, roots):
    """The file on this machine; None: the program is none that has a profile."""
    return next((path for root in roots if os.path.isfile(path := root + mapping.file)), None)


def placed(mapping, path):
    """(what is to be added to the file's addresses, the first of them, the end)."""
    offset, address, _ = next(
        one for one in segments(path) if one[0] <= mapping.offset < one[0] + one[2]
    )
    first = mapping.offset - offset + address
    return mapping.start - first, first, first + mapping.size


def symbols(all_mappings, roots):
    """[(first, end, name)] of all functions where they are mapped; a name is the file's, too."""
    found = {}
    for mapping in all_mappings:
        if path := file_of(mapping, roots):
            added, first, end = placed(mapping, path)
            for start, stop, name in functions(path):
                if first <= start < end:
                    found[start + added] = (
                        start + added,
                        stop + added,
                        f"{os.path.basename(mapping.file)}:{name}",
                    )
    return sorted(found.values())


def code(all_mappings, roots):
    """The addresses of all instructions, in order."""
    found = set()
    for mapping in all_mappings:
        if path := file_of(mapping, roots):
            added, first, end = placed(mapping, path)
            every = instructions(path)
            found.update(
                at + added
                for at in every[bisect.bisect_left(every, first) : bisect.bisect_left(every, end)]
            )
    return sorted(found)
