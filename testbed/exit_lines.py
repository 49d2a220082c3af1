#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# exit_lines.py: the way of one exit through root mode, by function and line: a table, in the order
# of execution. The ledger of a run with the knob `exit_paths on` has the addresses, the image's ELF
# file the lines (addr2line). `make exit-lines` calls it; with --page the table of a page is written
# anew.
import argparse
import bisect
import collections
import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENTRIES = ("vmx_exit_entry", "vmx_exit_entry_guarded", "vmx_exit_entry_timed")  # vmx/exit/entry.asm
# One instruction in C: it is its caller's.
WRAPPERS = ("include/x86.h", "include/instructions.h", "vmx/vmcs.h", "vmx/vmcs_access.h")
REGION_INIT = "100"  # from the first line of the guest's init on (programs/payload/payload.h)
PAGE_BYTES = 4096  # an image is moved by whole pages
BEGIN = "<!-- Made by `make docs` from an exit in the emulator: testbed/exit_lines.py. -->\n\n"
END = "\n<!-- End of what is made. -->\n"
HEAD = ("function", "lines", "instructions", "VMREAD, VMWRITE")


class Trouble(Exception):
    """What is missing, in one line."""


class Row:
    """What one function does in one go, itself or what is inlined into it."""

    def __init__(self, function, file):
        self.function, self.file = function, file
        self.lines, self.instructions, self.accesses = set(), 0, 0

    def name(self):
        return f"`{self.function}{'' if self.file.endswith('.asm') else '()'}`"


def tool(*words, given=""):
    try:
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Trouble(f"{words[0]} is missing; run: testbed/deps.sh build") from None
    except subprocess.CalledProcessError as failed:
        raise Trouble(failed.stderr.strip().splitlines()[-1]) from None
    return done.stdout


def reason_of(ledger, text):
    """The ledger's key of this reason: its number, or its name or the beginning of that."""
    names = {key: ledger["exits"][key]["name"] for key in ledger["exit_paths"]}
    found = [key for key, name in names.items() if text.lower() in (key, name.lower())] or [
        key for key, name in names.items() if name.lower().startswith(text.lower())
    ]
    if len(found) == 1:
        return found[0]
    raise Trouble(
        f"{len(found) or 'no'} reasons '{text}' among this run's exits, wanted one of: "
        f"{', '.join(sorted(names.values()))}"
    )


def ways(ledger, reason):
    """The ways of that reason, the commonest first, and which exits they are: those since the
    guest's init has begun, if there are any. Linux itself asks CPUID again and again for a
    hypervisor."""
    since_init = ledger["regions"].get(REGION_INIT, {}).get("exit_paths", {})
    return (
        (since_init[reason], "since the guest's init began")
        if reason in since_init
        else (ledger["exit_paths"][reason], "in this run")
    )


class Image:
    """The image's symbols, and how far it was moved: a way begins where HOST_RIP points to."""

    def __init__(self, elf, first):
        self.elf = elf
        found = sorted(
            (int(address, 16), name)
            for address, name in re.findall(
                r"^([0-9a-f]+) [tT] (\w+)$", tool("nm", elf), re.MULTILINE
            )
        )
        self.addresses, self.names = zip(*found)
        begins = [
            first - address
            for address, name in found
            if name in ENTRIES and (first - address) % PAGE_BYTES == 0
        ]
        if len(begins) != 1:
            raise Trouble(f"{elf} is not of the image that ran: no exit of it begins at {first:#x}")
        self.moved = begins[0]

    def symbol(self, address):
        return self.names[bisect.bisect_right(self.addresses, address) - 1]


def frames(image, steps):
    """Of each step its functions, innermost first: (name, file, line)."""
    addresses = [rip - image.moved for rip, _ in steps]
    said = tool(
        "addr2line",
        "-a",
        "-i",
        "-f",
        "-e",
        image.elf,
        given="".join(f"{address:#x}\n" for address in addresses),
    )
    blocks = re.split(r"^0x[0-9a-f]+\n", said, flags=re.MULTILINE)[1:]
    for address, block in zip(addresses, blocks):
        lines = block.splitlines()
        found = []
        for function, place in zip(lines[::2], lines[1::2]):
            match = re.match(r"(.+):(\d+)", place)
            if not match:
                raise Trouble(
                    f"{image.elf} has no lines of {function}; build it anew: make clean all"
                )
            # NASM names its file below the file's own folder, from where it was called.
            file = os.path.relpath(
                os.path.join(
                    TOP, match[1].split("//")[-1].lstrip("/") if "//" in match[1] else match[1]
                ),
                TOP,
            )
            # A label within a macro of NASM's has a symbol, too.
            found.append(
                (image.symbol(address) if file.endswith(".asm") else function, file, int(match[2]))
            )
        yield found


def rows_of(steps, elf):
    """The way's rows. What is inlined is a function of its own."""
    image = Image(elf, steps[0][0])
    rows, last, going = [], None, {}
    for (_, accesses), found in zip(steps, frames(image, steps)):
        if found[-1][0] != last:
            last, going = found[-1][0], {}
        function, file, line = next((one for one in found if one[1] not in WRAPPERS), found[-1])
        if function not in going:
            going[function] = Row(function, file)
            rows.append(going[function])
        row = going[function]
        row.lines.add(line)
        row.instructions += 1
        row.accesses += accesses
    return rows


def ranges(numbers):
    """1-3, 7."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def table(rows):
    """Markdown that is a table to the eye, too."""
    cells = [
        HEAD,
        *(
            (
                row.name(),
                f"{row.file}:{ranges(row.lines)}",
                str(row.instructions),
                str(row.accesses),
            )
            for row in rows
        ),
    ]
    cells.append(
        (
            "in all",
            "",
            str(sum(row.instructions for row in rows)),
            str(sum(row.accesses for row in rows)),
        )
    )
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "| "
        + " | ".join(
            text.rjust(width) if number > 1 else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths))
        )
        + " |"
        for row in cells
    ]
    lines.insert(
        1,
        "|"
        + "|".join(
            "-" * (width + 1) + ("-" if number < 2 else ":") for number, width in enumerate(widths)
        )
        + "|",
    )
    return "\n".join(lines) + "\n"


def others(paths):
    """How long the ways are that are not shown: {instructions: exits}."""
    found = collections.Counter()
    for path in paths:
        found[len(path["steps"])] += path["count"]
    return ", ".join(
        f"{length} instructions ({count} exit{'s' if count > 1 else ''})"
        for length, count in sorted(found.items())
    )


def page_with(text, made):
    """The page with this table between its marks."""
    if text.count(BEGIN) != 1 or END not in text.split(BEGIN)[1]:
        raise Trouble("the page has no place for the table")
    before, rest = text.split(BEGIN)
    return before + BEGIN + made + END + rest.split(END, 1)[1]


def main():
    parser = argparse.ArgumentParser(description="The way of one exit through root mode, by line.")
    parser.add_argument("--page", help="the page whose table is to be this one")
    parser.add_argument("ledger", help="of a run with the knob 'exit_paths on'")
    parser.add_argument("elf", help="the image that ran: build/pmuvisor.elf")
    parser.add_argument("reason", help="CPUID, or any name or number of the ledger's")
    given = parser.parse_args()
    try:
        with open(given.ledger, encoding="utf-8") as source:
            ledger = json.load(source)
        reason = reason_of(ledger, given.reason)
        (commonest, *more), when = ways(ledger, reason)
        made = table(rows_of(commonest["steps"], given.elf))
        if given.page:
            with open(given.page, encoding="utf-8") as page:
                text = page_with(page.read(), made)
            with open(given.page, "w", encoding="utf-8") as page:
                page.write(text)
            return
    except (Trouble, OSError, ValueError) as trouble:
        sys.exit(f"exit_lines.py: {trouble}")
    count = sum(path["count"] for path in [commonest, *more])
    print(
        f"{ledger['exits'][reason]['name']}: {count} exits {when}. From the VM exit to the VM "
        f"entry "
        f"{commonest['count']} of them took this way:\n\n{made}"
    )
    if more:
        print(f"The others: {others(more)}.")


if __name__ == "__main__":
    main()
