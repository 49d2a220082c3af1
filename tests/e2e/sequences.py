# SPDX-License-Identifier: BSD-2-Clause
# sequences.py: the fuzzer of sequences (tests/kernel/sequence.c), natively and under PMUvisor with
# a row of options that is drawn as the sequences are: compares, and makes what differs small.
#
#   python3 -m tests.e2e.sequences SEED COUNT ["ROW"]     compares; ROW as a difference prints it
#   python3 -m tests.e2e.sequences replay SEED NUMBER KEPT "ROW"   one sequence, event by event
import itertools
import os
import random
import re
import sys
import tempfile
from zlib import crc32

from testbed.lab import Lab
from testbed.machine import STATUS_LIMIT, STATUS_POWEROFF, path
from tests.e2e.experiment_rows import EXPERIMENTS, all_of

STEP = 32  # sequence.c
EVENTS_SHOWN = 3
WORDS = 24  # of one command line, at most
PARTS = 12  # sequence.h; and bits of `kept`
SETUP = range(32, 43)
ALL = (1 << 64) - 1
MWAIT, USER_CALLS, BTF, CET, STEPPED = 1, 2, 4, 8, 16  # enum sequence_variant
X2, SMP = "x2apic", "smp"
# Processors: the default one more often; each word of MACHINE is drawn with a third.
MODELS = ["", "", "sapphire_rapids", "sapphire_rapids", "corei7_icelake_u", "arrow_lake"]
CET_MODELS = ["sapphire_rapids"]
MACHINE = {"no_1g": "hide_cpuid 0x80000001 0 edx 0x4000000\n"}
CPUS = 2
# Experiments' options of which a row has one, each with what is drawn beside it.
OTHERS = [(row, experiment.beside) for experiment in EXPERIMENTS for row in experiment.rows] or [
    (None, [])
]
APICS = [(apic, x2) for apic in ("", "trap") for x2 in (False, True)]
TSC = "tsc_hz 50000000\n"  # several processors' time
# PEBS, on a stepping for which root mode has to have it switched off by MSR lists.
PEBS = "pebs 3\ncpuid 1 0 eax 0x8\n"
# An option that the hypervisor leaves out.
REFUSED = re.compile(r"pmuvisor: .*; the guest goes on without.*")
LIMIT = 30_000  # millions of instructions, natively
# A guest that executes more instructions than guest_limit() allows counts as one that hangs. A
# guest executes the native instructions, and root mode executes its own. So the limit bounds those
# of root mode, for each native instruction after the start. At most one instruction in a hundred
# exits (measured: one in 500 to one in 6,000), and an exit takes at most 1,000 (the mean is 150 to
# 550). That makes SLOWER. Under some options of an experiment more instructions exit: the
# experiment's rows.ini says how many instructions of root mode that adds. SETUP_MILLIONS is for
# what these means leave out: PMUvisor's own start (10), and a short run of the one STEP that exits
# most (155).
SLOWER, SETUP_MILLIONS = 10, 500


class Row:
    """Options that a boot has, and what follows from them for the sequences."""

    def __init__(self, policy, config, x2=False, smp=False, model="", machine=()):
        self.policy, self.config, self.x2, self.smp = policy, config, x2, smp
        self.model, self.machine = model, tuple(machine)
        self.kind = "smp-sequence" if smp else "sequence"
        options = dict(word.split("=", 1) for word in config.split())
        hidden = options.get("tick", "0") != "0" or any(
            word in all_of("hide_mwait") for word in config.split()
        )
        self.variant = (
            BTF
            | (0 if hidden else MWAIT)
            | (USER_CALLS if options.get("user_hypercalls") == "1" else 0)
            | (CET if model in CET_MODELS else 0)
            | (STEPPED if any(word in all_of("steps") for word in config.split()) else 0)
        )

    def slower(self):
        """How many instructions of root mode a native one stands for, at most."""
        return SLOWER + max(
            (times for option, times in all_of("slower") if option in self.config.split()),
            default=0,
        )

    def __str__(self):
        words = [f"policy={self.policy}"] + self.config.split()
        words += [f"model={self.model}"] if self.model else []
        return " ".join(words + list(self.machine) + [X2] * self.x2 + [SMP] * self.smp)

    def knobs(self):
        return (TSC if self.smp else PEBS) + "".join(MACHINE[word] for word in self.machine)

    @staticmethod
    def parse(text):
        words = text.split()
        policy = next((word[7:] for word in words if word.startswith("policy=")), "msr+nmi")
        model = next((word[6:] for word in words if word.startswith("model=")), "")
        config = " ".join(
            word
            for word in words
            if word not in (X2, SMP)
            and word not in MACHINE
            and not word.startswith(("policy=", "model="))
        )
        return Row(
            policy,
            config,
            X2 in words,
            SMP in words,
            model,
            [word for word in words if word in MACHINE],
        )

    @staticmethod
    def draw(seed, smp=False):
        """The row of a seed: each option's value at random, the defaults more often. What is an
        experiment's and the APIC's mode come in each pair once before one comes again."""
        pick = random.Random(seed).choice
        pairs = list(itertools.product(OTHERS, APICS))
        random.Random(seed // len(pairs)).shuffle(pairs)
        (other, beside), (apic, x2) = pairs[seed % len(pairs)]
        words = []

        def option(name, *values):
            value = pick(values)
            if value:
                words.append(f"{name}={value}")
            return value

        policy = pick(["msr+nmi", "msr+nmi", "msr", "intercept"])
        option("apic", apic)
        for name, values in ([other] if other else []) + beside:
            option(name, *values)
        option("tick", "", "", "1")
        option("stats", "", "", "cycles")
        option("unblock", "", "", "lazy")
        option("platform_nmi", "", "host")
        option("user_hypercalls", "", "1")
        return Row(
            policy,
            " ".join(words),
            x2 and not smp,
            smp,
            pick(MODELS),
            [word for word in MACHINE if pick([False, False, True])],
        )


def boot(lab, name, row, words, native, **keywords):
    words = ([X2] if row.x2 else []) + words
    return lab.emulator(
        name,
        entry="native" if native else row.policy,
        config="" if native else row.config,
        initrd=b"none\n",
        kernel=path("build", "kernel.bzImage"),
        append="tests=" + ",".join(words),
        panic="report",
        cpus=CPUS if row.smp else 1,
        model=row.model or None,
        knobs=row.knobs(),
        **keywords,
    )


def hashes(run):
    return {int(line["end"]): line["hash"] for line in run.lines("sequence-hash")}


def shown(run):
    """What a verbose run printed: for each of its words the sequence's line, and its events'."""
    found, before = [], []
    for line in run.console.splitlines():
        if line.startswith("sequence-before: "):
            before = [line]
        elif line.startswith(("sequence: ", "smp-sequence: ")):
            found.append((line, before))
            before = []
        elif found and re.match(r"(sequence-(event|end|after)|smp-(action|started|msr)): ", line):
            found[-1][1].append(line)
    return found


class Difference:
    """A sequence that gives something else under a row than natively."""

    def __init__(self, seed, number, row, efi, lines=(), ended=()):
        self.seed, self.number, self.row, self.efi = seed, number, row, efi
        self.ended = list(ended)  # limit_lines() of the run that found it
        self.kept = ALL
        self.hangs = False
        self.lines = list(lines)  # it is known why

    def word(self, kept, first=None):
        first = self.number if first is None else first
        count = self.number - first + 1
        return f"{self.row.kind}:verbose:{self.seed}:{first}:{count}:{self.row.variant}:{kept}"

    def look(self, lab, keeps, first=None):
        """For each of these `keeps` whether the sequence still differs; the first one's lines."""
        words = [self.word(kept, first) for kept in keeps]
        name = f"{self.seed}-{self.number}-{crc32(repr((str(self.row), self.efi, words)).encode())}"
        begun = start(lab, self.row)
        one = boot(lab, f"sequence-native-{name}", self.row, words, True, limit=LIMIT)
        two = boot(
            lab,
            f"sequence-guest-{name}",
            self.row,
            words,
            False,
            efi=self.efi,
            limit=guest_limit(begun, one, self.row),
        )
        ours, theirs = shown(one), shown(two)
        per_word = len(ours) // len(keeps)
        differ = []
        for n in range(len(keeps)):
            at = (n + 1) * per_word - 1
            there = theirs[at][1] if at < len(theirs) else None
            differ.append(there != ours[at][1])
            if not there or not there[-1].startswith(("sequence-end: ", "smp-started: ")):
                self.hangs = True
            if differ[-1] and not self.lines:
                self.lines = difference_lines(ours[at], there, two)
        return differ

    def minimise(self, lab):
        """Alone, if that shows it; then without whatever it does not need."""
        if self.lines:
            return
        for first in dict.fromkeys((self.number, self.number // STEP * STEP, 0)):
            if self.look(lab, [ALL], first)[0]:
                break
        else:
            self.lines = ["not seen again", *self.ended]
            return
        if first != self.number or self.hangs or self.row.smp:
            return
        bits = list(range(PARTS)) + list(SETUP)
        while bits:
            without = [self.kept & ~(1 << bit) for bit in bits]
            still = [bit for bit, differs in zip(bits, self.look(lab, without)) if differs]
            if not still:
                break
            chain, kept = [], self.kept
            for bit in still:
                kept &= ~(1 << bit)
                chain.append(kept)
            good = [kept for kept, differs in zip(chain, self.look(lab, chain)) if differs]
            # The longest chain that differs; one bit alone always does.
            self.kept = max(good, key=chain.index)
            bits = [bit for bit in still[chain.index(self.kept) + 1 :]]
        self.lines = []
        self.look(lab, [self.kept])

    def __str__(self):
        efi = f"EFI={self.efi} " if self.efi else ""
        return "\n".join(
            [
                f"sequence {self.number} of seed {self.seed} differs under {self.row}:",
                *self.lines,
                f"again: {efi}python3 -m tests.e2e.sequences replay {self.seed} "
                f'{self.number} {self.kept} "{self.row}"',
            ]
        )


def start(lab, row):
    """A native boot without a sequence: firmware, boot loader and the test kernel's own start,
    which are not the same on each Debian."""
    alike = Row("native", "", smp=row.smp, model=row.model)
    name = "-".join(filter(None, [row.kind, "start", row.model]))
    return boot(lab, name, alike, [f"{row.kind}:0:0:0"], True, limit=LIMIT)


def guest_limit(begun, native, row):
    """The limit of a guest's run, in millions of instructions. `native`: the same run natively;
    `begun`: what start() gives."""
    begun.expect_status(STATUS_POWEROFF)
    whole = native.ledger["ticks"]
    own = max(whole - begun.ledger["ticks"], 0)
    return (whole + own * row.slower()) // 1_000_000 + SETUP_MILLIONS


def limit_lines(guest):
    """Says so if its limit ended the run."""
    if guest.status != STATUS_LIMIT:
        return []
    millions = guest.ledger["ticks"] // 1_000_000
    return [f"the guest reached its limit of {millions} million instructions"]


def difference_lines(ours, there, run):
    """What was run, and the first events that are not the same."""
    if there is None:
        return [
            ours[0],
            "there: nothing",
            f"the guest's last line: {run.last_line()}",
            *limit_lines(run),
        ]
    lines, differing = [ours[0]], 0
    for n in range(max(len(ours[1]), len(there))):
        here = ours[1][n] if n < len(ours[1]) else "none"
        other = there[n] if n < len(there) else "none"
        if here != other and differing < EVENTS_SHOWN:
            differing += 1
            lines += [f"  natively: {here}", f"  there:    {other}"]
    return lines


def native(lab, seed, count, row):
    name = "-".join(
        [
            row.kind,
            "native",
            *map(str, (seed, count, row.variant, int(row.x2))),
            *filter(None, [row.model, *row.machine]),
        ]
    )
    run = boot(lab, name, row, [f"{row.kind}:{seed}:0:{count}:{row.variant}"], True, limit=LIMIT)
    run.expect_status(STATUS_POWEROFF)
    return run


def find(lab, seed, count, row, efi=None, tag=""):
    """The first Difference of so many sequences; None: all are the same."""
    begun, one = start(lab, row), native(lab, seed, count, row)
    name = f"{row.kind}-guest-{seed}-{count}-{crc32(str(row).encode())}{tag}"
    two = boot(
        lab,
        name,
        row,
        [f"{row.kind}:{seed}:0:{count}:{row.variant}"],
        False,
        efi=efi,
        limit=guest_limit(begun, one, row),
    )
    refused = REFUSED.search(two.console)
    if refused:
        return Difference(seed, 0, row, efi, [refused[0]])
    ours, theirs = hashes(one), hashes(two)
    end = next((end for end in sorted(ours) if ours[end] != theirs.get(end)), None)
    if end is None:
        return None
    if row.smp:
        return Difference(seed, end - 1, row, efi, ended=limit_lines(two))
    first = (end - 1) // STEP * STEP
    ended = limit_lines(two)
    words = [f"sequence:each:{seed}:{first}:{end - first}:{row.variant}"]
    one = boot(lab, f"{one.name}-{end}", row, words, True, limit=LIMIT)
    limit = guest_limit(begun, one, row)
    two = boot(lab, f"{name}-{end}", row, words, False, efi=efi, limit=limit)
    ours, theirs = hashes(one), hashes(two)
    number = next((at for at in sorted(ours) if ours[at] != theirs.get(at)), end) - 1
    return Difference(seed, number, row, efi, ended=ended)


def main(arguments):
    efi = os.environ.get("EFI")
    with tempfile.TemporaryDirectory(prefix="pmuvisor-sequences.") as keep:
        lab = Lab(keep)
        if arguments[0] == "replay":
            found = Difference(int(arguments[1]), int(arguments[2]), Row.parse(arguments[4]), efi)
            differs = found.look(lab, [int(arguments[3])])[0]
            print("\n".join(found.lines) if differs else "the same")
            return int(differs)
        seed, count = int(arguments[0]), int(arguments[1])
        row = Row.parse(arguments[2]) if len(arguments) > 2 else Row.draw(seed)
        found = find(lab, seed, count, row, efi)
        if found:
            found.minimise(lab)
        print(found or f"{count} sequences of seed {seed} are the same under {row}")
        return int(found is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
