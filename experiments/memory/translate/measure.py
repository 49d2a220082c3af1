#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# measure.py: what a traced write costs a translator: the loop of tests/kernel/write_loop.asm as a
# program of this machine, and as a guest of QEMU's TCG, plain, with a plugin whose hook for writes
# is empty, and with one that records them. Host time in TSC ticks, that of the loop alone; the
# least of some runs, because whatever else runs here only adds. --instructions: host instructions
# as well, of valgrind's callgrind: exact where a machine has no counters for them.
# --count measures nothing: it prints how often the plugin is called, and for how many writes.
# Usage: measure.py [--instructions] [--count] [--repeat N] [OUT.json]
# Default: build/e2e/memory-translate.json
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
OUT = os.path.join(TOP, "build", "e2e", "memory-translate.json")
KERNEL = os.path.join(TOP, "build", "kernel.bzImage")
BUILT = os.path.join(TOP, "build", "translate")
LINE = re.compile(r"# memory-cost (\S+) t=(\d+) u=(\d+) rounds=(\d+) writes=(\d+) .*?ticks=(\d+)")
# t of u turns write, as in the paper: Fig. 5.1's line, and Table 5.2 beside the same loop without a
# write. Rounds so that a loop takes some tenths of a second under the slowest.
LOOPS = (
    (0, 10000, 2000),
    (25, 10000, 2000),
    (50, 10000, 2000),
    (75, 10000, 2000),
    (100, 10000, 2000),
    (0, 100, 200000),
    (48, 100, 200000),
)
MODES = {"tcg": None, "tcg hook": "hook", "tcg record": "record"}
# Callgrind is some 50 times slower. The difference of two lengths is free of the translation
# itself.
COUNTED = ((0, 100, 2000), (0, 100, 22000), (48, 100, 2000), (48, 100, 22000))
TOLERANCE = 0.01  # of a count: the guest's own start waits for the clock, and writes while it does
TIME_LIMIT = 600


def instructions(u, rounds):
    """Of the loop (tests/kernel/write_loop.asm), whatever t is."""
    return rounds * (5 + 5 * u)


def qemu(loops, plugin=None, before=()):
    """Console and errors of one boot of the test kernel."""
    # The job's T counts from 1.
    jobs = ",".join(f"memory-cost:none:{t + 1}:{u}:{rounds}" for t, u, rounds in loops)
    options = "-accel tcg -display none -serial stdio -monitor none -m 128 -no-reboot"
    command = [*before, "qemu-system-x86_64", *options.split(), "-kernel", KERNEL]
    command += ["-append", f"tests={jobs}"]
    if plugin:
        command += ["-plugin", f"{BUILT}/plugin.so,{plugin}"]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT
    )
    if done.returncode != 0 or "failed=0" not in done.stdout:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout, done.stderr


def measured(text):
    """Ticks by (t, u, rounds) of a console."""
    return {
        tuple(int(n) for n in found.group(2, 3, 4)): int(found[6]) for found in LINE.finditer(text)
    }


def native(loops):
    return "\n".join(
        subprocess.run(
            [f"{BUILT}/native", *map(str, loop)],
            check=True,
            text=True,
            capture_output=True,
            timeout=TIME_LIMIT,
        ).stdout
        for loop in loops
    )


def calls(loops, accesses):
    """How often the plugin's function is called."""
    return int(re.search(r"writes=(\d+)", qemu(loops, f"mode=count,accesses={accesses}")[1])[1])


def which_accesses():
    """The number by which this QEMU calls for writes, and for nothing else (plugin.c)."""
    (t, u, rounds), seen = (48, 100, 50000), {}
    wanted = rounds * t
    for accesses in (2, 1):
        seen[accesses] = calls([(t, u, rounds)], accesses) - calls([(t, u, 1)], accesses)
        if abs(seen[accesses] - wanted) <= wanted * TOLERANCE:
            return accesses, {"wanted": wanted, "calls": seen}
    raise RuntimeError(f"the plugin was called {seen} times for {wanted} writes")


def counted(plugin):
    """Host instructions by loop, of all of QEMU's threads. The guest reads its TSC right before and
    right after the loop, and callgrind writes out what it has whenever QEMU answers that."""
    with tempfile.TemporaryDirectory() as folder:
        valgrind = "valgrind --tool=callgrind --smc-check=all --dump-before=cpu_get_tsc"
        qemu(COUNTED, plugin, (*valgrind.split(), f"--callgrind-out-file={folder}/out"))
        parts = sorted(glob.glob(f"{folder}/out.*"), key=lambda name: int(name.rsplit(".", 1)[1]))
        totals = []
        for part in parts:
            with open(part, encoding="ascii", errors="replace") as source:
                totals.append(int(re.search(r"^totals: (\d+)", source.read(), re.MULTILINE)[1]))
    if len(totals) != 2 * len(COUNTED):
        raise RuntimeError(f"{len(totals)} readings of the TSC, wanted {2 * len(COUNTED)}")
    # Before the first reading is the start, between a loop's second and the next one's first a
    # line.
    return dict(zip(COUNTED, totals[1::2]))


def per_unit(totals):
    """Host instructions of one guest instruction without a write, and of one write more."""
    (none, longer), (some, more) = COUNTED[:2], COUNTED[2:]
    guest = instructions(100, longer[2]) - instructions(100, none[2])
    each = (totals[longer] - totals[none]) / guest
    writes = some[0] * (more[2] - some[2])
    return each, (totals[more] - totals[some] - each * guest) / writes


def text_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(repeat, with_instructions):
    accesses, proof = which_accesses()
    plugins = {mode: kind and f"mode={kind},accesses={accesses}" for mode, kind in MODES.items()}
    found = {}
    # In turns, so that what else runs here meets all alike.
    for _ in range(repeat):
        for mode, text in [
            ("native", native(LOOPS)),
            *((mode, qemu(LOOPS, plugin)[0]) for mode, plugin in plugins.items()),
        ]:
            for loop, ticks in measured(text).items():
                found.setdefault((mode, loop), []).append(ticks)
    processor = re.search(r"Model name: *(.*)", text_of(["lscpu"]))
    out = {
        "processor": processor[1] if processor else "not known",
        "repeat": repeat,
        "qemu": text_of(["qemu-system-x86_64", "--version"]).splitlines()[0],
        "accesses": accesses,
        "proof": proof,
        "loops": [
            {
                "mode": mode,
                "t": t,
                "u": u,
                "rounds": rounds,
                "writes": t * rounds,
                "instructions": instructions(u, rounds),
                "ticks": min(ticks),
            }
            for (mode, (t, u, rounds)), ticks in found.items()
        ],
    }
    if with_instructions:
        out["host"] = {
            mode: dict(zip(("instruction", "write"), per_unit(counted(plugin))))
            for mode, plugin in plugins.items()
        }
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("out", nargs="?", default=OUT)
    asked = parser.parse_args()
    for tool, package in (
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("nasm", "nasm"),
        *((("valgrind", "valgrind"),) if asked.instructions else ()),
    ):
        if shutil.which(tool) is None:
            sys.exit(f"measure.py: {tool} is missing; install {package}")
    if not os.path.exists(KERNEL):
        sys.exit("measure.py: build/kernel.bzImage is missing; run: make test-kernel")
    subprocess.run([os.path.join(HERE, "build.sh"), BUILT], check=True)
    if asked.count:
        accesses, proof = which_accesses()
        print(json.dumps({"calls": proof["calls"][accesses], "writes": proof["wanted"]}))
        return
    made = run(asked.repeat, asked.instructions)
    os.makedirs(os.path.dirname(os.path.abspath(asked.out)), exist_ok=True)
    with open(asked.out, "w", encoding="ascii") as out:
        json.dump(made, out, indent=1)


if __name__ == "__main__":
    main()
