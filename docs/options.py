#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# options.py: writes docs/options.md and the man page docs/pmuvisor.7 from boot/option_table.h,
# which the C preprocessor turns into text that Python reads. Usage: options.py
# options.py --check "k=v ...": what PMUvisor would refuse of these options, in one line with status
# 1
import ast
import glob
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
# Each row becomes a tuple of Python's. Two steps of STR, so that a macro's value is shown.
SOURCE = r"""
#include "options.h"
#include "console/log.h"
#include "TABLE_FILE"
#define STR(...) #__VA_ARGS__
#define SHOW(...) STR(__VA_ARGS__)
#define VALUES(...) [__VA_ARGS__]
#define NAME(name, value) (name, SHOW(value))
#define ROW(key, kind, field, initial, wanted, values, help) \
    (#key, #kind, SHOW(initial), wanted, values, help),
#undef NULL
#define NULL None
@ROWS [TABLE(ROW)]
"""
CORE = "boot/option_table.h"
# Where no names are given.
TEXT_VALUES = {"TEXT": "PATH", "REST": "TEXT"}


@dataclass
class Option:
    """One row, as a page shows it."""

    key: str
    names: list  # of which one is to be given; beside them, or in their place:
    words: str  # what is to be given
    default: str
    help: str
    kind: str  # enum option_kind of include/options.h
    wanted: str  # as in the parser's errors
    values: list  # [(name, value)], of a NUMBER [(None, its largest value)]


def shown_default(kind, initial, names):
    if kind in TEXT_VALUES:
        return "" if initial == "{0}" else ast.literal_eval(initial)
    for name, value in names:
        if name is not None and value == initial:
            return name
    assert kind == "NUMBER" and initial.isdigit(), f"no name for the default {initial}"
    return initial


def shown_values(kind, wanted, names):
    """Names, and words in their place."""
    if kind == "CHOICE":
        return [name for name, _ in names], ""
    if kind == "PORT":
        return [name for name, _ in names], "an I/O port such as 0x3e8"
    if kind == "NUMBER":
        return [], f"0 to {names[0][1]}"
    return [], TEXT_VALUES.get(kind, wanted)


def read_table(top=TOP, file=CORE):
    done = subprocess.run(
        ["cc", "-E", "-P", "-std=c11", "-I", os.path.join(top, "include"), "-I", top, "-"],
        input=SOURCE.replace("TABLE_FILE", file).replace(
            "TABLE(ROW)", "OPTIONS(ROW)" if file == CORE else "EXPERIMENT_OPTIONS(ROW)"
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = ast.literal_eval(done.stdout.split("@ROWS", 1)[1].strip())
    return [
        Option(
            key,
            *shown_values(kind, wanted, names),
            shown_default(kind, initial, names),
            text,
            kind,
            wanted,
            names,
        )
        for key, kind, initial, wanted, names, text in rows
    ]


def experiment_options(top=TOP):
    """Those of all experiments; only pmuvisor-lab.efi has them."""
    files = sorted(glob.glob("experiments/*/hypervisor/options.h", root_dir=top))
    return [option for file in files for option in read_table(top, file)]


def experiment_policies(top=TOP):
    """The values that experiments add to policy=."""
    found = []
    for file in sorted(glob.glob(os.path.join(top, "experiments/*/hypervisor/experiment.c"))):
        with open(file, encoding="utf-8") as source:
            found += re.findall(r"^ *\.policy = {\"([^\"]+)\"", source.read(), re.MULTILINE)
    return found


def value_fault(option, value, names):
    """What is wrong with a value; "": nothing, or it is for PMUvisor itself to say (texts,
    ports)."""
    wanted = option.wanted
    if option.kind == "NUMBER":
        wrong = [] if value.isdecimal() and int(value) <= int(option.values[0][1]) else [value]
    elif option.kind in ("CHOICE", "STEPS"):
        wrong = [
            word
            for word in (value.split(",") if option.kind == "STEPS" else [value])
            if word not in names
        ]
        wanted = "one of: " + ", ".join(names)
    else:
        return ""
    return (
        f"option {option.key}: found '{wrong[0]}', wanted {wanted}; correct or remove it"
        if wrong
        else ""
    )


def fault_of(text, top=TOP):
    """What the image with all experiments would refuse of these options, a sentence; "":
    nothing."""
    options = {option.key: option for option in read_table(top) + experiment_options(top)}
    for line in text.splitlines():
        for word in [] if line.lstrip().startswith("#") else line.split():
            key, equals, value = word.partition("=")
            option = options.get(key)
            if not option:
                return (
                    f"unknown option '{key}', wanted one of: {' '.join(options)}; correct or "
                    f"remove it"
                )
            if not equals:
                return f"option {key} has no value, wanted {key}=VALUE; correct or remove it"
            if option.kind == "REST":
                break
            names = [name for name, _ in option.values] + (
                experiment_policies(top) if key == "policy" else []
            )
            fault = value_fault(option, value, names)
            if fault:
                return fault
    return ""


SOURCES = """PMUvisor reads its options from `pmuvisor.cfg`, a file beside the image,
then from the load options, which GRUB's `chainloader` passes. The later
source wins. Each option is `key=value`; blanks and line ends separate the
options. A line that begins with `#` is a comment. The text is printable ASCII,
and `pmuvisor.cfg` has at most 16384 bytes."""
REFUSAL = """If an option is unknown or has a wrong value, PMUvisor does not start. It
prints one line, which says what was found, what is wanted and what to do.
Control returns to the firmware or GRUB, with an EFI error status."""
EXAMPLE = [
    "# NMIs exit, and cycles of each exit are kept",
    "policy=msr stats=cycles tick=0",
    "kernel=/EFI/debian/vmlinuz initrd=",
    "append=root=/dev/sda2 console=ttyS0,115200",
]


LAB = """Only `pmuvisor-lab.efi` has these options; `make lab` builds that image.
`pmuvisor.efi` refuses these options with a line that names the other image.
`run-qemu.sh` and `make install` read the options and choose the right image.
The rows come from `experiments/*/hypervisor/options.h`."""


def rows(options):
    lines = ["| option | values | default | what it does |", "|---|---|---|---|"]
    for option in options:
        values = ", ".join(
            [f"`{name}`" for name in option.names] + ([option.words] if option.words else [])
        )
        default = f"`{option.default}`" if option.default else "empty"
        lines.append(f"| `{option.key}` | {values} | {default} | {option.help} |")
    return lines


def man_rows(options):
    lines = []
    for option in options:
        values = "|".join(
            [f"\\fB{roff(name)}\\fR" for name in option.names]
            + ([f"\\fI{roff(option.words)}\\fR"] if option.words else [])
        )
        default = roff(option.default) or "empty"
        lines += [
            ".TP",
            f"\\fB{option.key}\\fR={values}",
            roff(textwrap.fill(option.help, 75)),
            f"Default: {default}.",
        ]
    return lines


def markdown(options, lab):
    lines = [
        "<!-- Made by docs/options.py from boot/option_table.h: edit that. -->",
        "# Options",
        "",
        SOURCES,
        "",
        *rows(options),
    ]
    if lab:
        lines += ["", "## Options of experiments", "", LAB, "", *rows(lab)]
    lines += [
        "",
        "A `pmuvisor.cfg`:",
        "",
        "```",
        *EXAMPLE,
        "```",
        "",
        REFUSAL,
        "",
        "`docs/pmuvisor.7` is this page as a man page: `man docs/pmuvisor.7`.",
        "[nmi.md](nmi.md) explains the steps of `bookkeeping`. [glossary.md](glossary.md)",
        "explains other terms.",
    ]
    return "\n".join(lines) + "\n"


def roff(text):
    """Text for man(7): a backslash, a hyphen that is one, and what begins a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def man_page(options, lab):
    lines = [
        '.\\" SPDX-License-Identifier: BSD-2-Clause',
        '.\\" Made by docs/options.py from boot/option_table.h: edit that.',
        '.TH PMUVISOR 7 "" "PMUvisor" ""',
        ".SH NAME",
        "pmuvisor \\- hypervisor that gives one guest the PMU and its NMIs",
        ".SH SYNOPSIS",
        ".nf",
        ".B chainloader /EFI/pmuvisor/pmuvisor.efi",
        "[\\fIkey\\fR=\\fIvalue\\fR ...]",
        ".fi",
        ".SH DESCRIPTION",
        roff(
            "pmuvisor.efi is a program of UEFI. It starts a Linux kernel as its guest,\n"
            "under VMX, with the performance monitoring unit passed through."
        ),
        ".PP",
        roff(SOURCES),
        ".SH OPTIONS",
        *man_rows(options),
    ]
    if lab:
        lines += [".SH OPTIONS OF EXPERIMENTS", roff(LAB), *man_rows(lab)]
    lines += [".SH EXIT STATUS", roff(REFUSAL), ".SH FILES"]
    for name, text in (
        ("pmuvisor.efi", "the hypervisor"),
        ("pmuvisor.cfg", "options, in the same folder"),
        ("vmlinuz, initrd.img", "the guest's kernel and initramfs"),
        ("grub.cfg", "menu entries, one for each policy"),
    ):
        lines += [".TP", f".I {roff(name)}", text]
    lines += [
        ".SH EXAMPLES",
        ".nf",
        *map(roff, EXAMPLE),
        ".fi",
        ".SH SEE ALSO",
        roff("perf(1), README.md and docs/ of the sources"),
    ]
    return "\n".join(lines) + "\n"


def pages(top=TOP):
    """{name below docs/: text}."""
    options, lab = read_table(top), experiment_options(top)
    return {"options.md": markdown(options, lab), "pmuvisor.7": man_page(options, lab)}


def main():
    if sys.argv[1:2] == ["--check"]:
        fault = fault_of(" ".join(sys.argv[2:]))
        return fault or 0
    for name, text in pages().items():
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
