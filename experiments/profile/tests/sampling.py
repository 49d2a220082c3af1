# SPDX-License-Identifier: BSD-2-Clause
# sampling.py: the boots whose job samples Listing 2, and each way's profile held against the emulator's own counts
# of the same run.
import collections
import re
import statistics
import subprocess
from dataclasses import dataclass

import boots
from machine import STATUS_POWEROFF, path
import shares
import truth

FUNCTIONS = ("a", "aa", "b", "bb", "bbb", "c")
PROGRAM = path("build", "programs", "listing2")
REGIONS = "3400-3499"
LIMIT = 60_000  # millions of instructions
PERIOD, ROUND = 211, 200  # instructions: a prime, and a multiple of a loop's four
ITER = 5000
NATIVE_WAYS = ("nmi", "pebs", "lbr", "pt")
POLICIES = ("msr+nmi", "msr", "intercept")
SKIDS = 24  # instructions; of the knob pmi_skid


def boot(lab, entry, ways=("nmi",), periods=(PERIOD,), skid="0"):
    knobs = f"pmi_skid {skid}\nprofile_truth {REGIONS} truth\nguest_files guest\n"
    knobs += "".join(f"{knob}\n" for way, knob in (("pebs", "pebs 3"), ("pt", "pt on")) if way in ways)
    done = lab.emulator(f"sampling-{entry}-{'-'.join(ways)}-{skid.replace('/', '-')}", entry=entry, jobs="sampling",
                        initrd=boots.initrd(name="profile"), knobs=knobs, config="console=none", limit=LIMIT,
                        append=f"norandmaps nokaslr nmi_watchdog=0 pmv.sampling={','.join(ways)} "
                               f"pmv.periods={','.join(map(str, periods))} pmv.iter={ITER}")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("sampling") == 0, (done.lines("sampling"), done.last_line())
    return done


def functions():
    said = subprocess.run(["nm", "-S", PROGRAM], capture_output=True, text=True, check=True).stdout
    symbols = [(int(at, 16), int(size, 16), name) for at, size, name in
               re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [Tt] (\w+)$", said, re.MULTILINE) if name in FUNCTIONS]
    return shares.Functions(symbols, FUNCTIONS)


def code():
    """The addresses of all instructions of the program."""
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", PROGRAM], capture_output=True, text=True,
                          check=True).stdout
    return sorted(int(at, 16) for at in re.findall(r"^ +([0-9a-f]+):\t", said, re.MULTILINE))


def samples(done, name):
    """Of each sample its address, and its branch records, the newest first; none without."""
    found = []
    with open(done.path(f"guest/{name}.list"), encoding="utf-8") as source:
        for line in source:
            words = line.split()
            if words:
                stack = [tuple(int(at, 16) for at in word.split("/")[:2]) for word in words[1:]]
                found.append((int(words[0], 16), stack))
    return found


@dataclass
class Answer:
    """One way's profile."""
    samples: int
    outside: int             # of the samples: in none of the functions
    by_function: float       # distances from the truth
    by_instruction: float
    chance: float            # that of as many random samples, by function
    curve: list              # by function, by the number of samples
    ways: truth.Ways
    same_addresses: object   # whether perf's addresses are those that the NMIs interrupted; None: no NMI
    interrupts_off: float    # of the kernel's instructions in the region


def counts_of(way, found, instructions):
    """{address: count} of samples, as this way makes a profile of them."""
    if way == "lbr-blocks":
        return shares.of_stacks([stack for _, stack in found], instructions)
    if way == "lbr-target":
        return shares.last_targets([stack for _, stack in found])
    return collections.Counter(at for at, _ in found)


def answer(done, way, period=PERIOD):
    """`way`: the job's, or lbr-blocks or lbr-target, which correct the samples of lbr."""
    name = f"{way.split('-')[0]}-{period}"
    row = next(line for line in done.lines("sampling") if line.get("way") == name)
    assert row["lost"] == row["errors"] == "0", row
    with open(done.path("truth"), encoding="ascii") as source:
        region = truth.read(source)[int(row["region"])]
    found, of, instructions = samples(done, name), functions(), code()
    assert len(found) == int(row["records"]) > 0, row
    true = region.instructions()
    true_functions, true_places = (shares.share(part(true)) for part in (of.counts, of.within))

    def profile(some):
        return shares.share(of.counts(counts_of(way, some, instructions)))
    inside = [sample for sample in found if of.of(sample[0]) is not None]
    addresses = counts_of(way, inside, instructions)
    interrupted = [nmi.rip for nmi in region.nmis() if nmi.user]
    listed = [at for at, _ in found]
    start = next((n for n in range(len(listed)) if interrupted and listed[n:n + 3] == interrupted[:3]), None)
    return Answer(
        samples=len(inside), outside=len(found) - len(inside),
        by_function=shares.distance(profile(inside), true_functions),
        by_instruction=shares.distance(shares.share(of.within(addresses)), true_places),
        chance=shares.by_chance(true_functions, len(inside)),
        curve=shares.by_samples(inside, profile, true_functions), ways=truth.ways(region),
        same_addresses=None if not interrupted else
        start is not None and listed[start:start + len(interrupted)] == interrupted,
        interrupts_off=region.interrupts_off())


def middle(values):
    return statistics.median_low(values) if values else None
