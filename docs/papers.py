# SPDX-License-Identifier: BSD-2-Clause
"""The rows and commands of papers.md. As a program it runs each command of the rows that do not
want hardware, and prints what it ended with and how long it took. Everything should be built
(make built), and the machine quiet. Kept results are not used. What a command prints goes to
build/papers/.

Usage: python3 -m docs.papers [--list] [--write] [ID ...]
    ID       only commands of these rows, such as T01
    --list   prints the commands, and runs nothing
    --write  puts the minutes of each command that ended well into papers.md
"""
import argparse
import os
import re
import subprocess
import sys
import time

from docs import pages

PAGE = "docs/papers.md"
FOLDER = os.path.join(pages.TOP, "build", "papers")
HARDWARE = "hardware"
COMMAND = r"`((?:FULL=1 )?(?:make|pytest) [^`]+)`"
# After a command: how many tests it selects, where they are many, and its minutes.
SAID = re.compile(COMMAND + r"(?: \((?:(\d+) tests)?(?:, )?(?:(\d+) min)?\))?")


def rows(text):
    """[id, the paper, the word, how or why not] of each claim."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| [TPVMG]\d\d ", line)
    ]


def commands(text):
    """{command: (ids of its rows, tests, minutes)} of the rows that need no hardware; what is not
    said is ""."""
    found = {}
    for name, _, word, how in rows(text):
        for command, tests, minutes in SAID.findall(how) if word != HARDWARE else ():
            ids = found.get(command, ([],))[0]
            found[command] = (ids + [name], tests, minutes)
    return found


def with_minutes(text, command, minutes):
    """The page with the minutes of a command, wherever it stands."""

    def put(said):
        if said[1] != command:
            return said[0]
        words = [f"{said[2]} tests"] if said[2] else []
        return f"`{command}` ({', '.join([*words, f'{minutes} min'])})"

    return SAID.sub(put, text)


def run(command, log):
    """Its exit status, and its seconds."""
    began = time.monotonic()
    environment = {**os.environ, "FRESH": "1", "PATH": f"/usr/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        command,
        shell=True,
        cwd=pages.TOP,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        check=False,
        env=environment,
    )
    return done.returncode, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("Usage: ")[2])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("ids", nargs="*")
    arguments = parser.parse_args()
    os.makedirs(FOLDER, exist_ok=True)
    bad = 0
    for number, (command, (ids, *_)) in enumerate(commands(pages.read(PAGE)).items(), 1):
        if arguments.ids and not set(arguments.ids) & set(ids):
            continue
        if arguments.list:
            print(f"{' '.join(ids)}: {command}")
            continue
        with open(os.path.join(FOLDER, f"{number:03}.txt"), "w", encoding="utf-8") as log:
            status, seconds = run(command, log)
        print(f"{status} {seconds / 60:.1f} min {' '.join(ids)}: {command}", flush=True)
        bad += status != 0
        if arguments.write and status == 0:
            text = with_minutes(pages.read(PAGE), command, max(1, round(seconds / 60)))
            with open(os.path.join(pages.TOP, PAGE), "w", encoding="utf-8") as out:
                out.write(text)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
