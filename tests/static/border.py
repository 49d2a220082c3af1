# SPDX-License-Identifier: BSD-2-Clause
# border.py: nothing outside experiments/ names an experiment: neither its folder, nor an option or
# a header of its own, nor a global symbol of its part of the hypervisor; in comments neither. Pages
# (*.md, the man page) may: they lead there.
import glob
import os
import re
import subprocess
import sys

from testbed.machine import TOP, tree_files

PROSE = (".md", ".7", ".svg")
# The emulator's library is another program, in C++: a name there is no name of the hypervisor's.
OTHER_PROGRAM = ("testbed/instrument/", "tests/unit/testbed/")
ORDINARY = 5  # an option's key with at most so many letters is a word of English: it counts as KEY=


def tracked():
    """All files that git knows of; in a copy that it knows nothing of all that are there, but those
    of the build."""
    return tree_files() or [
        os.path.relpath(os.path.join(folder, name), TOP)
        for folder, _, names in os.walk(TOP)
        for name in names
        if not os.path.relpath(folder, TOP).startswith(("build", ".git"))
    ]


def text_of(name):
    with open(os.path.join(TOP, name), "rb") as file:
        content = file.read()
    return "" if b"\0" in content else content.decode(errors="replace")


def outside():
    """All but pages and what was measured, which is no code: its tables have the titles that
    experiments gave."""
    return {
        name: text_of(name)
        for name in tracked()
        if not name.startswith(("experiments/", "results/")) and not name.endswith(PROSE)
    }


def folders():
    return sorted(
        os.path.basename(path)
        for path in glob.glob(os.path.join(TOP, "experiments", "*"))
        if os.path.isdir(path)
    )


def options():
    """The keys of all experiments' options."""
    return sorted(
        {
            key
            for path in glob.glob(os.path.join(TOP, "experiments/*/hypervisor/options.h"))
            for key in re.findall(r"\bOPTION\((\w+),", text_of(os.path.relpath(path, TOP)))
        }
    )


def headers():
    """Names of headers that are nowhere else."""
    own = {
        os.path.basename(name)
        for name in tracked()
        if name.startswith("experiments/") and name.endswith(".h")
    }
    return sorted(
        own - {os.path.basename(name) for name in tracked() if not name.startswith("experiments/")}
    )


def symbols():
    """What the objects of experiments' parts of the hypervisor define, and those of the core do
    not."""

    def defined(pattern):
        objects = glob.glob(os.path.join(TOP, "build", pattern))
        if not objects:
            return set()
        done = subprocess.run(
            ["nm", "--defined-only", "--extern-only", *objects],
            capture_output=True,
            text=True,
            check=True,
        )
        return {line.split()[-1] for line in done.stdout.splitlines() if len(line.split()) == 3}

    return sorted(defined("experiments/*/hypervisor/*.o"))


def either(names):
    return "(?:" + "|".join(map(re.escape, names)) + ")"


def rules():
    """(what it is, pattern, prefixes of files where it does not count)."""
    found = []
    if folders():
        found.append(("the folder", re.compile(rf"\bexperiments/{either(folders())}\b"), ()))
    keys = options()
    if keys:
        found.append(("the option", re.compile(rf"(?<![\w.]){either(keys)}=(?!=)"), ()))
    if any(len(key) > ORDINARY for key in keys):
        found.append(
            (
                "the option",
                re.compile(rf"\b{either(key for key in keys if len(key) > ORDINARY)}\b"),
                (),
            )
        )
    if headers():
        found.append(
            ("the header", re.compile(rf"#\s*include\s+\"(?:[\w./-]*/)?{either(headers())}\""), ())
        )
    if symbols():
        found.append(("the symbol", re.compile(rf"\b{either(symbols())}\b"), OTHER_PROGRAM))
    return found


def complaints(files, looks_for):
    """Each place, as a line."""
    return [
        f"{name}:{number}: names {what} {hit[0]!r}"
        for name, text in sorted(files.items())
        for what, pattern, spared in looks_for
        if not name.startswith(spared or ("\0",))
        for number, line in enumerate(text.splitlines(), 1)
        for hit in [pattern.search(line)]
        if hit
    ]


def main():
    found = complaints(outside(), rules())
    print(
        "\n".join(found) or f"border.py: nothing outside names one of {len(folders())} experiments"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
