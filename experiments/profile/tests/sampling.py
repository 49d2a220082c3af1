# SPDX-License-Identifier: BSD-2-Clause
# sampling.py: the boots whose job samples loads, and each way's profile held against the emulator's
# own counts of the same run.
import collections
import functools
import statistics
from dataclasses import dataclass

from experiments.profile.analysis import mapped
from experiments.profile.analysis import profile_truth as truth
from experiments.profile.analysis import shares
from testbed import boots
from testbed.machine import STATUS_POWEROFF, path

# The functions that a profile is of (None: all of the program's), the period, and rounds.
Load = collections.namedtuple("Load", "functions period rounds")
LOADS = {
    "listing2": Load(("a", "aa", "b", "bb", "bbb", "c"), 211, 5000),
    "shorts": Load(("s4", "s8", "s16", "s32"), 211, 3000),
    "sqlite3": Load(None, 2003, None),
    "glpsol": Load(None, 2003, None),
    "nginx": Load(None, 307, 60),
    "closed": Load(("open_32", "closed_12", "open_8", "closed_64", "work_rounds"), 4001, 30000),
}
KERNEL = "closed"  # the load that is the kernel's
PROGRAMS = tuple(load for load in LOADS if load != KERNEL)
VECTOR = 0xED  # guest/module/vector.c
REGIONS = "3400-3499"
LIMIT = 120_000  # millions of instructions
MEMORY = 1024  # MiB
ROUND = 200  # instructions: a multiple of a loop's four
POLICIES = ("msr+nmi", "msr", "intercept")
ENTRIES = ("native", *POLICIES)
SKIDS = 24  # instructions; of the knob pmi_skid
# Debian's suite of the host's kernel, and more words.
# The limits of sampling that the job lifts in the guest are lifted in the host, too, in the same
# order.
HOST_LIMITS = (
    "sysctl.kernel.perf_event_max_sample_rate=10000000 sysctl.kernel.perf_cpu_time_max_percent=0"
)
KVMS = {
    "kvm": ("", ""),
    "kvm-new": ("trixie-backports", ""),
    "kvm-mediated": ("trixie-backports", "pmv.mediated=1 "),
}
# The ways of the job by load, of a boot; Intel PT is decoded in the guest, which takes too long for
# real programs.
BY_NMI = {**{load: ("nmi",) for load in PROGRAMS}, KERNEL: ("nmi", "vector")}
ALL = {**{load: ("nmi", "pebs", "lbr") for load in PROGRAMS}, KERNEL: ("nmi", "vector")}
ALL |= {load: (*ALL[load], "pt") for load in ("listing2", "shorts")}
WITH_SKID = {load: BY_NMI[load] for load in ("listing2", "shorts", KERNEL)}
ROOTS = (path("build", "debian", "profile"), path("build", "programs"))


def listed(values):
    return ",".join(f"{load}:{value}" for load, value in values.items())


def boot(lab, entry, name, loads, skid="0", periods=()):
    """One boot with the job; `entry`: native, a policy, or one of KVMS; `loads`: {load: ways}."""
    ways = {way for of_load in loads.values() for way in of_load}
    knobs = f"pmi_skid {skid}\nprofile_truth {REGIONS} truth\nguest_files guest\n"
    knobs += "".join(
        f"{knob}\n" for way, knob in (("pebs", "pebs 3"), ("pt", "pt on")) if way in ways
    )
    every = {load: LOADS[load].period for load in loads} | dict(periods)
    rounds = {load: LOADS[load].rounds for load in loads if LOADS[load].rounds}
    words = (
        f"norandmaps nokaslr nmi_watchdog=0 "
        f"pmv.loads={listed({load: '+'.join(loads[load]) for load in loads})} "
        f"pmv.periods={listed(every)} pmv.iter={listed(rounds)}"
    )
    name = f"sampling-{name}-{entry}"
    if entry in KVMS:
        suite, more = KVMS[entry]
        image = f"kvm-profile-{suite}" if suite else "kvm-profile"
        done = lab.emulator(
            name,
            entry="native",
            jobs="kvm",
            memory=MEMORY,
            kernel=lab.kernel("cloud", suite),
            initrd=boots.initrd(name=image),
            knobs=knobs,
            limit=LIMIT,
            append=f"{HOST_LIMITS} {more}{words} pmv.kvm=sampling",
        )
    else:
        done = lab.emulator(
            name,
            entry=entry,
            jobs="sampling",
            memory=MEMORY,
            initrd=boots.initrd(name="profile"),
            knobs=knobs,
            config="console=none",
            limit=LIMIT,
            append=words,
        )
    done.expect_status(STATUS_POWEROFF)
    rows = rows_of(done)
    assert len(rows) == sum(map(len, loads.values())), (
        done.lines("sampling")[-3:],
        done.last_line(),
    )
    return done


def rows_of(done):
    return [line for line in done.lines("sampling") if "records" in line]


@dataclass
class List:
    """What the job has handed over; of each sample the address and the branch records, the newest
    first, if any."""

    samples: list
    symbols: list
    mappings: list


@functools.lru_cache(maxsize=4)
def read(file):
    samples, symbols, lines = [], [], []
    with open(file, encoding="utf-8") as source:
        for line in source:
            words = line.split()
            if "PERF_RECORD" in line:
                lines.append(line.rstrip())
            elif words and words[0] == "function":
                symbols.append((int(words[2], 16), int(words[3], 16), words[1]))
            elif words and words[0] != "dropped":
                stack = [tuple(int(at, 16) for at in word.split("/")[:2]) for word in words[1:]]
                samples.append((int(words[0], 16), stack))
    return List(samples, symbols, mapped.mappings(lines))


def functions(load, found):
    if LOADS[load].functions is None:
        # The program that starts the load is sampled before its region begins.
        return shares.Functions(
            mapped.symbols([one for one in found.mappings if one.file != "/marked"], ROOTS)
        )
    symbols = found.symbols or mapped.symbols(found.mappings, ROOTS)
    return shares.Functions(
        [(first, end, name.split(":")[-1]) for first, end, name in symbols], LOADS[load].functions
    )


@dataclass
class Answer:
    """One way's profile of one load."""

    samples: int
    outside: int  # of the samples: in none of the functions
    by_function: float  # distances from the truth
    by_instruction: float
    chance: float  # those of as many random samples
    chance_by_instruction: float
    curve: list  # by function, by the number of samples
    ways: object  # truth.Ways; None: no interrupt
    elsewhere: (
        object  # the part of the overflows whose sample is in another function; None: no interrupt
    )
    same_addresses: (
        object  # whether the addresses are those that the interrupts came at; None: no interrupt
    )
    masked: float  # the part of the samples with interrupts off
    truly_masked: float  # of the instructions


def counts_of(way, found, instructions):
    """{address: count} of samples, as this way makes a profile of them."""
    if way == "lbr-blocks":
        return shares.of_stacks([stack for _, stack in found], instructions)
    if way == "lbr-target":
        return shares.last_targets([stack for _, stack in found])
    return collections.Counter(at for at, _ in found)


@functools.lru_cache(maxsize=2)
def truths(file):
    with open(file, encoding="ascii") as source:
        return truth.read(source)


def truly(done, load, way):
    """The true shares by function, of the run that was sampled so."""
    _, _, region, names, space = parts_of(done, load, way)
    return shares.share(functions(load, names).counts(region.instructions(space)))


def parts_of(done, load, job_way):
    """(the job's line, the list, the region's truth, the list that names the functions, the address
    space)"""
    row = next(line for line in rows_of(done) if (line["load"], line["way"]) == (load, job_way))
    assert row["lost"] == row["errors"] == "0", row
    region = truths(done.path("truth"))[int(row["region"])]
    found = read(done.path(f"guest/{load}-{job_way}.list"))
    # The sampler by a vector lists the functions, of the load that perf samples as well.
    names = found if load != KERNEL else read(done.path(f"guest/{load}-vector.list"))
    space = region.space_of(collections.Counter(at for at, _ in found.samples))
    assert len(found.samples) == int(row["records"]) > 0, row
    return row, found, region, names, space


def answer(done, load, way):
    """`way`: the job's, or lbr-blocks or lbr-target, which correct the samples of lbr."""
    _, found, region, names, space = parts_of(done, load, way.split("-")[0])
    of = functions(load, names)
    instructions = mapped.code(found.mappings, ROOTS) if way == "lbr-blocks" else []
    true = region.instructions(space)
    true_functions, true_places = (shares.share(part(true)) for part in (of.counts, of.within))

    def profile(some):
        return shares.share(of.counts(counts_of(way, some, instructions)))

    inside = [sample for sample in found.samples if of.of(sample[0]) is not None]
    places = of.within(counts_of(way, inside, instructions))
    vector = {"nmi": truth.NMI, "vector": VECTOR}.get(way)
    masked = region.masked(space)
    interrupted = (
        [one.rip for one in region.by_vector(vector) if one.space == space] if vector else []
    )
    return Answer(
        samples=len(inside),
        outside=len(found.samples) - len(inside),
        by_function=shares.distance(profile(inside), true_functions),
        by_instruction=shares.distance(shares.share(places), true_places),
        chance=shares.by_chance(true_functions, len(inside)),
        chance_by_instruction=shares.by_chance(true_places, len(inside)),
        curve=shares.by_samples(inside, profile, true_functions),
        ways=truth.ways(region, vector) if vector else None,
        elsewhere=elsewhere(region, of, vector) if vector else None,
        same_addresses=(
            within(
                interrupted, [at for at, _ in found.samples if of_kernel(at) == (load == KERNEL)]
            )
            if vector
            else None
        ),
        masked=shares.part_masked(places, masked),
        truly_masked=shares.part_masked(of.within(true), masked),
    )


def of_kernel(address):
    return address >= 1 << 63


def within(some, all_of_them):
    """Whether the one list is a stretch of the other: before and behind a region perf has more."""
    starts = [n for n, at in enumerate(all_of_them) if some and at == some[0]]
    return any(all_of_them[start : start + len(some)] == some for start in starts)


def elsewhere(region, of, vector):
    """The part of the overflows in a function whose interrupt came in another, or in none of
    them."""
    pairs = [
        (of.of(overflow.rip), of.of(after.rip)) for overflow, after in truth.pairs(region, vector)
    ]
    there = [one != other for one, other in pairs if one is not None]
    return sum(there) / len(there) if there else None


def middle(values):
    return statistics.median_low(values) if values else None
