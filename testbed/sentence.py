# SPDX-License-Identifier: BSD-2-Clause
# sentence.py: says in one sentence what happened in a run of run-qemu.sh, from its exit status, the
# guest's console and, where the emulator has written one, the ledger. `make run` calls it. Its own
# exit status is 1 if a job of the guest's has failed, or if the guest did not come to its end.
# Usage:
#   python3 -m testbed.sentence STATUS CONSOLE [--ledger FILE] [--files FOLDER] [--backend LINE]
#        sentence.py --refusal CONSOLE   PMUvisor's refusal alone, nothing where it has started
import argparse
import json
import os
import re
import sys

from testbed.machine import (
    STATUS_POWEROFF,
    STATUS_REFUSED,
    STATUS_RESET,
    STATUS_TIMEOUT,
    exit_count,
)

REFUSAL = "PMUvisor refuses to start:"
REGIONS_WITHOUT, REGIONS_WITH = ("1",), ("2", "3", "4")  # of A.1 (programs/payload/payload.h)
REGION_INIT = "100"
PANIC_LINES = 12
END = re.compile(r"^init: done failed=(\d+) end=(\w+)", re.MULTILINE)
WHERE = {"emulator": "in the emulator", "kvm": "under KVM"}


def plain(text):
    """Without a terminal's control sequences, in lines."""
    return re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]", "", text).replace("\r", "")


def listed(words):
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def last_words(console):
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return f"the last line on its console: {lines[-1][:160]}" if lines else "its console is empty"


def panic_of(console):
    """What the guest's kernel panicked of, with the console's last lines; none: no panic."""
    found = re.search(r"Kernel panic - not syncing: (.*)", console)
    lines = [line.rstrip() for line in console.splitlines() if line.strip()][-PANIC_LINES:]
    return (
        f"The guest's kernel panicked: {found[1]}; its last lines:\n    " + "\n    ".join(lines)
        if found
        else ""
    )


def refusal_of(console):
    """What PMUvisor said when it did not start. Firmware breaks long lines at its screen's end, and
    GRUB says behind it that there was an error."""
    found = re.search(
        re.escape(REFUSAL) + r"([^\x00-\x1f]*?)(?:error: |[\x00-\x1f]|$)", console.replace("\n", "")
    )
    return found[1].strip() if found else None


def exits_of(ledger):
    """What was said of A.1's PMIs and exits: those of the runs that have PMIs, less those of the
    one that has none, which each of them has as well."""
    regions = ledger.get("regions", {})
    if not all(name in regions for name in REGIONS_WITHOUT + REGIONS_WITH):
        return ""
    pmis = sum(regions[name]["pmi"]["raised"] for name in REGIONS_WITH)
    exits = sum(exit_count(regions[name]) for name in REGIONS_WITH) - len(
        REGIONS_WITH
    ) * exit_count(regions[REGIONS_WITHOUT[0]])
    if pmis == 0:
        return ""
    each = f"{exits / pmis:.3g}"
    return (
        ", and no exit was taken for one"
        if exits == 0
        else f", and each took {each} exit{'' if each == '1' else 's'}"
    )


def of_pmis(console, ledger):
    """What became of program A.1, where it ran."""
    rows = re.findall(r"^a1: .* expected=(\d+) pmis=(\d+) ", console, re.MULTILINE)
    if not rows:
        return []
    wanted, came = (sum(map(int, column)) for column in zip(*rows))
    if came != wanted:
        return [f"{came} PMIs came where {wanted} were wanted"]
    return [
        f"program A.1 got its {came} PMIs"
        + (exits_of(ledger) if ledger else "; only the emulator counts the exits of one PMI")
    ]


def of_command(words, status):
    """The program that ran; with perf, whose own status is the program's, but where perf itself has
    failed."""
    name = os.path.basename(words[words.index("--") + 1 if "--" in words else 0])
    return name if "--" not in words or status == "0" else f"perf {words[1]} of {name}"


def failed_jobs(console):
    """[(job, status)] of those that did not end well."""
    return [
        (name, code)
        for name, code in re.findall(r"^job: name=(\S+) status=(\d+)", console, re.MULTILINE)
        if code != "0"
    ]


def commands_of(console):
    """[(words, status)] of the commands of somebody's own program, where one ran."""
    return [
        (line.split(), status)
        for status, line in re.findall(
            r"^program: status=(\d+) command=(.*)$", console, re.MULTILINE
        )
    ]


def of_program(console, ledger, files):
    """What became of somebody's own program, where one ran."""
    commands = commands_of(console)
    if not commands:
        return []
    said = [
        f"{of_command(words, status)} ended with status {status}"
        for words, status in commands
        if (words, status) == commands[0] or status != "0"
    ]
    for name, region in sorted(
        (ledger or {}).get("regions", {}).items(), key=lambda one: int(one[0])
    ):
        if name != REGION_INIT:
            said.append(f"its region {name} has {exit_count(region)} exits")
    if files:
        said.append(f"it left {listed(files)}")
    return said


def of_backend(line):
    """Where the run was and why there, of the line that run-qemu.sh --probe prints."""
    found = re.search(r"backend (\w+): (.*)", line)
    return f" It ran {WHERE.get(found[1], found[1])}: {found[2]}." if found else ""


def sentence(status, console, ledger=None, files=(), backend="", kept=""):
    """`ledger`: None where none was written. `backend`: see of_backend(). `kept`: the file that has
    the console."""
    console = plain(console)
    refusal = refusal_of(console)
    if refusal and status in (STATUS_REFUSED, STATUS_RESET):
        return f"PMUvisor refused to start, and the guest did not run: {refusal}"
    if status not in (STATUS_POWEROFF, STATUS_RESET, STATUS_TIMEOUT) and not console.strip():
        return f"The run did not begin, exit status {status}: a line above says why."
    end = END.search(console)
    if not end and panic_of(console):
        return panic_of(console)
    if status == STATUS_TIMEOUT:
        return f"The guest did not end in time; {last_words(console)}"
    if (
        not end
        or status not in (STATUS_POWEROFF, STATUS_RESET)
        or (status == STATUS_RESET) != (end[2] == "reboot")
    ):
        how = {
            STATUS_POWEROFF: "The machine was switched off",
            STATUS_RESET: "The machine was reset",
        }
        return (
            f"{how.get(status, f'The run failed with exit status {status}')} before the guest "
            f"had come to its end; {last_words(console)}"
        )
    failed = failed_jobs(console)
    # The job of somebody's own program fails as its command did, which is said of that.
    commands = [("program", code) for _, code in commands_of(console)]
    said = [
        f"the job {name} failed with status {code}"
        for name, code in failed
        if (name, code) not in commands
    ]
    said += of_pmis(console, ledger) + of_program(console, ledger, files)
    if failed and kept:
        said.append(f"the output is above, and in {kept}")
    return (
        f"The guest ran to its end{', but ' if failed else ': ' if said else ''}"
        f"{'; '.join(said)}.{of_backend(backend)}"
    )


def main():
    parser = argparse.ArgumentParser(description="What happened in a run, in one sentence.")
    parser.add_argument("status", type=int, nargs="?", help="the exit status of run-qemu.sh")
    parser.add_argument("console", nargs="?", help="what its --serial has written")
    parser.add_argument("--refusal", metavar="CONSOLE", help="print PMUvisor's refusal alone")
    parser.add_argument(
        "--backend", default="", metavar="LINE", help="what run-qemu.sh --probe says"
    )
    parser.add_argument("--ledger", help="what its --ledger has written; may be missing")
    parser.add_argument("--files", help="the folder of its --files; may be missing")
    given = parser.parse_args()
    if (given.refusal is None) == (given.console is None):
        parser.error("wanted STATUS and CONSOLE, or --refusal CONSOLE")
    console, ledger, files = "", None, []
    name = given.refusal or given.console
    if os.path.exists(name):
        with open(name, encoding="utf-8", errors="replace") as source:
            console = source.read()
    if given.refusal:
        refusal = refusal_of(plain(console))
        print(f"{REFUSAL} {refusal}\n" if refusal else "", end="")
        return
    if given.ledger and os.path.exists(given.ledger) and os.path.getsize(given.ledger):
        with open(given.ledger, encoding="utf-8") as source:
            ledger = json.load(source)
    if given.files and os.path.isdir(given.files):
        files = [os.path.join(given.files, name) for name in sorted(os.listdir(given.files))]
    print(f"\n{sentence(given.status, console, ledger, files, given.backend, given.console)}\n")
    console = plain(console)
    sys.exit(1 if failed_jobs(console) or not END.search(console) else 0)


if __name__ == "__main__":
    main()
