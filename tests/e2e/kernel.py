# SPDX-License-Identifier: BSD-2-Clause
# kernel.py: boots of the test kernel (tests/kernel), natively and under PMUvisor: the plan of what
# it runs, with the emulator's knobs that go with it, and its results.
import re

from testbed.machine import STATUS_POWEROFF, path

# tests/kernel/kernel.h, enum region; the exit reasons are the SDM's.
REGION_CPUID = 1001
REGION_MSR = 1003
CPUID_COST = (104, 6)  # root instructions and VMCS accesses of an exit in REGION_CPUID
REGION_PMI = 1004
# tests/kernel/probe.h, enum probe_kind.
KINDS = {
    "cpuid": (0, 10),
    "vmcall": (1, 18),
    "wrmsr": (2, 32),
    "wrmsr-fault": (3, 32),
    "ept": (4, 48),
    "cpuid-sti": (5, 10),
    "cpuid-movss": (6, 10),
}


def mutant(name, *build):
    """The image with that planted fault (tests/mutants), of the build in that folder of build/."""
    return path("build", *build, "mutants", f"{name}.efi")


BASICS = [
    "cpuid",
    "wrap",
    "vmcall",
    "msr",
    "count",
    "pmi",
    "self",
    "blocked",
    "sti",
    "movss",
    "hlt",
]
# Without controls: of `msr 0xfff BITS` the bits say which (tests/mutants/controls_left_out.c).
LEFT_OUT = mutant("controls_left_out")
LBR_CLEAR_LEFT_OUT = 1 << 6

POSITIONS = 450  # more than any of these exits has instructions
APART = 600  # exits from the first of one sweep to the first of the next
TWICE_AT = 20  # where the fixed one of two NMIs in an exit comes
LONG_SKID = 160  # instructions; longer than the CPUID exit's path, shorter than PMI_BEFORE
SKIDS = 65  # skids of 0 to 64 instructions


class Plan:
    """Sweeps of one boot: what the guest is told, and the knobs that go with it."""

    def __init__(self, *knobs):
        self.knobs = list(knobs)
        self.words = []
        self.next = {}

    def add(self, *words):
        self.words += words
        return self

    def sweep(self, test, *kinds, positions=POSITIONS):
        for kind in kinds:
            reason = KINDS[kind][1]
            first = self.next.get(reason, 0) + APART
            self.next[reason] = first + positions - POSITIONS
            self.knobs.append(
                f"nmi_root reason={reason} exits={first}-{first + positions - 1} " "position=sweep"
            )
            self.words.append(f"{test}:{kind}:{first}:{positions}")
        return self

    def twice(self, kind):
        """Two NMIs in each exit: the sweep's, and one that always comes at the same place."""
        self.sweep("sweep-twice", kind)
        self.knobs.append(self.knobs[-1].replace("=sweep", f"={TWICE_AT}"))
        return self

    def nmi_exits(self, first=101, positions=300, stride=4):
        """Where NMIs exit: another NMI at each instruction of such an exit (sweep.c says how)."""
        for position in range(1, positions + 1):
            self.knobs.append(
                f"nmi_root reason=0 exits={first + (position - 1) * stride} position={position}"
            )
        return self.add(f"sweep-nmi:{first}:{positions}")

    def handler(self, word, first, count):
        """NMIs first, first + 1, ... of the run each get another one while they are handled."""
        self.knobs.append(f"nmi_handler nmis={first}-{first + count - 1} position=sweep")
        if word == ":exit":
            self.next[KINDS["cpuid"][1]] = self.next.get(KINDS["cpuid"][1], 0) + count + APART
        return self.add(f"sweep-handler{word}:{first}:{count}")


def run(lab, name, plan, entry="msr+nmi", config="", efi=None, cpus=1, content=b"none\n", **more):
    """One boot of the plan. `content`: of its initrd, of which it makes nothing."""
    return lab.emulator(
        name,
        entry=entry,
        config=config,
        kernel=path("build", "kernel.bzImage"),
        initrd=content,
        efi=efi,
        cpus=cpus,
        append="tests=" + ",".join(plan.words),
        knobs="\n".join(plan.knobs) + "\n",
        **more,
    )


# How the hypervisor may be set up so that its exit path is another one: name, options, menu entry,
# knobs, kinds of exit. (With a trapped APIC the guest's own NMIs are EPT violations.)
SPECULATION = ["cpuid 7 0 edx 0x34000400", "msr 0x48 0", "msr 0x49 0", "msr 0x10a 0", "msr 0x10b 0"]
SOME_KINDS = ["cpuid", "cpuid-sti", "wrmsr-fault", "ept"]
SETUPS = [
    ("policy-msr", "", "msr", [], SOME_KINDS),
    ("policy-intercept", "", "intercept", [], SOME_KINDS),
    ("apic-trap", "apic=trap", "msr+nmi", [], SOME_KINDS[:-1]),
    ("unblock-lazy", "unblock=lazy", "msr+nmi", [], SOME_KINDS),
    ("stats-cycles", "stats=cycles", "msr+nmi", [], SOME_KINDS),
    ("mitigations", "mitigations=auto", "msr+nmi", SPECULATION, ["cpuid", "cpuid-sti", "ept"]),
    ("msr-lists", "", "msr+nmi", ["hide_control load_global_ctrl_at_entry"], SOME_KINDS),
]


def tap(boot):
    """(name, ok, skipped, line) of every test in the order in which they ran."""
    boot.expect_status(STATUS_POWEROFF)
    found = []
    for line in boot.console.splitlines():
        match = re.match(r"(ok|not ok) (\d+) - (\S+?)(:? .*)?$", line)
        if match:
            found.append((match[3], match[1] == "ok", "# SKIP" in line, line))
        assert not line.startswith("Bail out!"), line
    plan = re.search(r"^1\.\.(\d+)$", boot.console, re.MULTILINE)
    assert (
        plan and int(plan[1]) == len(found) > 0
    ), f"{len(found)} tests, but the plan is {plan[0] if plan else 'missing'}"
    return found


def failed(boot):
    """The names of the tests that failed."""
    return [name for name, good, _, _ in tap(boot) if not good]


def notes(boot):
    return "; ".join(line for line in boot.console.splitlines() if line.startswith("# "))[-400:]


def expect_ok(boot, names, skipped=()):
    """Every run of these tests passed; those in `skipped` were skipped instead."""
    seen = {name: 0 for name in names}
    for name, good, skip, line in tap(boot):
        if name not in seen:
            continue
        seen[name] += 1
        assert good, f"{line} ({notes(boot)})"
        assert skip == (name in skipped), line
    missing = [name for name, count in seen.items() if count == 0]
    assert not missing, f"never ran: {missing}"


# PMUs with counters that CPUID.0AH:ECX or leaf 23H alone names: version, general, fixed.
SHAPES = {"v5": (5, 0x3FF, 0x8027), "v6": (6, 0xFBCF, 0x802F)}


def shape_knobs(shape):
    return [
        f"pmu_{name} {value:#x}"
        for name, value in zip(("version", "general_mask", "fixed_mask"), SHAPES[shape])
    ]
