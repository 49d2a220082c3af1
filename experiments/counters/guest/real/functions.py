#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# functions.py: a file of debugging symbols for a program or library without any, so that perf can
# say which function a sample was in. Debian strips its programs, but each function's range stays in
# .eh_frame (System V ABI, AMD64 supplement, "DWARF Definition"), for exceptions. A function has the
# name that the dynamic symbols give it, else fn_ADDRESS, which is the same natively and in a guest.
# The program itself is not touched. Usage: functions.py BINARY ROOT; writes
# ROOT/usr/lib/debug/.build-id/XX/YYY.debug, where perf looks for it.
import os
import re
import subprocess
import sys
import tempfile


def said(*command):
    """What it printed. readelf's status is not 0 where it warns, of the loader's frames for one."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    ).stdout


def sections(binary):
    """[(name, first, end)] of those with code."""
    found = []
    for line in said("readelf", "--wide", "--section-headers", binary).splitlines():
        match = re.match(
            r"\s*\[\s*\d+\] (\S+)\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) \S+ +AX", line
        )
        if match:
            first = int(match[2], 16)
            found.append((match[1], first, first + int(match[3], 16)))
    return found


def functions(binary):
    """{address: name}"""
    found = {}
    for line in said("readelf", "--debug-dump=frames", binary).splitlines():
        match = re.search(r" FDE .* pc=([0-9a-f]+)\.\.", line)
        if match:
            address = int(match[1], 16)
            found[address] = f"fn_{address:x}"
    for line in said("nm", "--dynamic", "--defined-only", binary).splitlines():
        value, kind, name = line.split()[:3]
        if kind in "TtWi":
            found[int(value, 16)] = name.partition("@")[0]
    return found


def build_id(binary):
    match = re.search(r"Build ID: ([0-9a-f]+)", said("readelf", "--notes", binary))
    if not match:
        sys.exit(f"functions.py: {binary}: no build ID, wanted one, as Debian's programs have")
    return match[1]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: functions.py BINARY ROOT")
    binary, root = sys.argv[1:]
    number = build_id(binary)
    out = os.path.join(root, "usr/lib/debug/.build-id", number[:2], f"{number[2:]}.debug")
    code = sections(binary)
    lines = []
    for address, name in sorted(functions(binary).items()):
        for section, first, end in code:
            if first <= address < end:
                lines.append(f"--add-symbol={name}={section}:{address - first},function,global")
    if not lines:
        sys.exit(f"functions.py: {binary}: no function found in .eh_frame")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".options") as options:
        options.write("\n".join(lines) + "\n")
        options.flush()
        subprocess.run(
            ["objcopy", "--only-keep-debug", f"@{options.name}", binary, out], check=True
        )


if __name__ == "__main__":
    main()
