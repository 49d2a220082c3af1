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

LOADS = {  # the program, its functions, its rounds
    "listing2": (("a", "aa", "b", "bb", "bbb", "c"), 5000),
    "shorts": (("s4", "s8", "s16", "s32"), 3000),
}
REGIONS = "3400-3499"
LIMIT = 60_000  # millions of instructions
PERIOD, ROUND = 211, 200  # instructions: a prime, and a multiple of a loop's four
NATIVE_WAYS = ("nmi", "pebs", "lbr", "pt")
POLICIES = ("msr+nmi", "msr", "intercept")
SKIDS = 24  # instructions; of the knob pmi_skid
# Debian's suite of the host's kernel, and more words.
KVMS = {"kvm": ("", ""), "kvm-new": ("trixie-backports", ""), "kvm-mediated": ("trixie-backports", "pmv.mediated=1 ")}


def boot(lab, entry, ways=("nmi",), periods=(PERIOD,), skid="0", load="listing2"):
    """One boot with the job; `entry`: native, a policy, or one of KVMS."""
    knobs = f"pmi_skid {skid}\nprofile_truth {REGIONS} truth\nguest_files guest\n"
    knobs += "".join(f"{knob}\n" for way, knob in (("pebs", "pebs 3"), ("pt", "pt on")) if way in ways)
    words = f"norandmaps nokaslr nmi_watchdog=0 pmv.sampling={','.join(ways)} pmv.load={load} " \
            f"pmv.periods={','.join(map(str, periods))} pmv.iter={LOADS[load][1]}"
    name = f"sampling-{load}-{entry}-{'-'.join(ways)}-{skid.replace('/', '-')}"
    if entry in KVMS:
        suite, more = KVMS[entry]
        image = f"kvm-profile-{suite}" if suite else "kvm-profile"
        done = lab.emulator(name, entry="native", jobs="kvm", memory=1024, kernel=lab.kernel("cloud", suite),
                            initrd=boots.initrd(name=image), knobs=knobs, limit=LIMIT,
                            append=f"{more}{words} pmv.kvm=sampling")
    else:
        done = lab.emulator(name, entry=entry, jobs="sampling", initrd=boots.initrd(name="profile"), knobs=knobs,
                            config="console=none", limit=LIMIT, append=words)
    done.expect_status(STATUS_POWEROFF)
    rows = [line for line in done.lines("sampling") if "records" in line]
    assert len(rows) == len(ways) * len(periods), (done.lines("sampling")[-3:], done.last_line())
    return done


def program(load):
    return path("build", "programs", load)


def functions(load):
    wanted = LOADS[load][0]
    said = subprocess.run(["nm", "-S", program(load)], capture_output=True, text=True, check=True).stdout
    symbols = [(int(at, 16), int(size, 16), name) for at, size, name in
               re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [Tt] (\w+)$", said, re.MULTILINE) if name in wanted]
    return shares.Functions(symbols, wanted)


def code(load):
    """The addresses of all instructions of the program."""
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program(load)], capture_output=True, text=True,
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
    elsewhere: object        # the part of the overflows whose sample is in another function; None: no NMI
    same_addresses: object   # whether perf's addresses are those that the NMIs interrupted; None: no NMI
    interrupts_off: float    # of the kernel's instructions in the region


def counts_of(way, found, instructions):
    """{address: count} of samples, as this way makes a profile of them."""
    if way == "lbr-blocks":
        return shares.of_stacks([stack for _, stack in found], instructions)
    if way == "lbr-target":
        return shares.last_targets([stack for _, stack in found])
    return collections.Counter(at for at, _ in found)


def answer(done, way, period=PERIOD, load="listing2"):
    """`way`: the job's, or lbr-blocks or lbr-target, which correct the samples of lbr."""
    name = f"{way.split('-')[0]}-{period}"
    row = next(line for line in done.lines("sampling") if line.get("way") == name)
    assert row["lost"] == row["errors"] == "0", row
    with open(done.path("truth"), encoding="ascii") as source:
        region = truth.read(source)[int(row["region"])]
    found, of, instructions = samples(done, name), functions(load), code(load)
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
        elsewhere=elsewhere(region, of),
        same_addresses=None if not interrupted else
        start is not None and listed[start:start + len(interrupted)] == interrupted,
        interrupts_off=region.interrupts_off())


def elsewhere(region, of):
    """The part of the overflows in a function whose NMI came in another, or in none of them."""
    pairs = [(of.of(overflow.rip), of.of(nmi.rip) if nmi.user else None) for overflow, nmi in truth.pairs(region)]
    there = [one != other for one, other in pairs if one is not None]
    return sum(there) / len(there) if there else None


def middle(values):
    return statistics.median_low(values) if values else None
