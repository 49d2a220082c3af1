# SPDX-License-Identifier: BSD-2-Clause
# plan.py: which boots a run makes in which column, and which cells each of them must bring. Nothing
# is run here.
import dataclasses

import added
import columns
import pool

KERNEL_RUNS = 5        # timed runs in the emulator: its TSC counts instructions, they are all alike
KERNEL_OPERATIONS = 100
METAL_RUNS = 101       # of a real TSC

# The test kernel's experiments (README.md, "results.json"), and what each measures.
KERNEL_ITEMS = {
    "msr": ("empty", "rdmsr_evtsel", "wrmsr_evtsel", "rdmsr_pmc", "wrmsr_pmc", "rdmsr_ctrl",
            "wrmsr_ctrl", "rdmsr_status", "rdpmc", "wrmsr_evtsel_change", "wrmsr_ctrl_change",
            "rdmsr_lbr_from", "wrmsr_lbr_from", "read_lbrs"),
    "exit": ("empty", "cpuid", "vmcall", "inl", "outl", "inl_passed", "cpuid_blocked"),
    "pmi": ("overflow_to_handler", "handler_to_iret", "lvtpc_write", "nmi_self", "pmu_switch"),
    "a1k": ("m200000", "m10000", "m1000", "m100"),
}
A1_ITEMS = ("m200000", "m10000", "m1000", "m100")
PAIR = ("plain", "profiled")

# What Linux runs: the jobs of its init (programs/payload, programs/workloads, experiments' own), what
# they measure, and their words on the kernel's command line: in the emulator, quick there, and on a
# machine with time of its own, where the jobs' own defaults hold.
# Listing 2's functions take 40 instructions an iteration: 20,000 samples are 1,000 million of them.
PROFILE_PERIOD = 50021
# How long a run of nginx is. A second of the emulator has fewer instructions with two processors: so
# many times as long, then, for as many requests.
NGINX_MS, TWO_LONGER = 100, 4
# Runs of nginx in a boot of the emulator, and where there are several boots.
RUNS, RUNS_OF_SEVERAL = f"pmv.nginx_runs={pool.FEWEST}", "pmv.nginx_runs=1"
DELAY_US = 1301  # no part of a timer's period
# On hardware a PMI comes some instructions after the overflow, not always as many; without that no
# sample could land in another function than natively, however late an NMI came to the guest.
PROFILE_SKID = "pmi_skid sweep/64"
# Linux leaves out some work where it sees a hypervisor (an NMI's entry does not read DR7). So that
# both sides of a ratio execute the same, the emulator's bare processor says that there is one, too:
# CPUID.1:ECX[31], which is what Linux goes by; no leaf of a hypervisor's is there.
HYPERVISOR_BIT = "cpuid 1 0 ecx 0x80000000"
# The same without, on both sides: PMUvisor's guest has not to be told of a hypervisor, and then Linux
# does what it does on a bare machine. Experiment a1 of such a boot is experiment a1_bare.
BARE = "a1_bare"
BARE_OPTIONS = {"native": "", "msr+nmi": "hypervisor_bit=off"}
LINUX_BOOTS = {
    "a1": {
        "jobs": ("a1bench", "context_switch"), "image": "",
        "cells": {"a1": A1_ITEMS, "context_switch": ("plain", "counted")},
        "limit": 300, "estimate": (20, 15),
        "words": {"emulator": "pmv.a1_runs=5 pmv.switch_runs=5",
                  "quick": "pmv.a1_runs=1 pmv.switch_runs=5", "nested": ""}},
    "profile": {
        "jobs": ("profile",), "image": "bench", "cells": {"profile": PAIR},
        "limit": 600, "estimate": (90, 40), "knobs": PROFILE_SKID,
        "words": {"emulator": f"pmv.iter=25100000 pmv.period={PROFILE_PERIOD} pmv.profile_runs=1",
                  "quick": f"pmv.iter=5000000 pmv.period={PROFILE_PERIOD} pmv.profile_runs=1",
                  "nested": ""}},
    "nginx": {
        "jobs": ("nginx",), "image": "bench", "cells": {"nginx": PAIR},
        "limit": 1500, "estimate": (110, 50),
        "words": {"emulator": f"pmv.nginx_ms={NGINX_MS} {RUNS}",
                  "quick": f"pmv.nginx_ms={NGINX_MS} {RUNS_OF_SEVERAL}", "nested": ""}},
    **added.boots(),
}

# The same job with two processors, as in the thesis, is this experiment, in the emulator. KVM's guest
# there has one.
TWO = "nginx_2"
# nginx runs on one of them and wrk, which marks the region, on the other.
BOTH_PROCESSORS = "regions_of_all on"
# What a quick run leaves out under peers: a second Linux below takes two to three times as long.
NOT_QUICK = ("nginx", *added.not_quick())

# Of the ablation: the boots that the boot menu has as well, and one with another image than theirs.
# variant: (column, options, another image than the usual one)
VARIANTS = {part.variant: (part.on, part.options, "") for part in columns.PARTS.values()}
VARIANTS["compiled_out"] = ("msr+nmi", "bookkeeping=all", "mutants/no_bookkeeping.efi")
# Of a further configuration, the other image than the usual one, and what such a one is called.
CONFIG_IMAGES = {"naive": "mutants/switch_each_exit.efi"}
CONFIG_TITLES = {"naive": "stats=cycles, counting's registers switched at each exit"}
# Of each further configuration: (experiment, item). They are of experiment config, with its name.
CONFIG_ITEMS = (("exit", "cpuid"), ("msr", "wrmsr_evtsel"), ("a1", "m200000"), ("a1", "m100"))
ABLATION_ITEMS = ("cpuid", "vmcall", "inl", "outl", "cpuid_blocked")
# Exits at which the bookkeeping has something to do. The emulator sends the NMIs, some of them before
# this root-mode instruction of an exit by VMCALL (reason 18; tests/kernel/test_nmi_events.c says
# which); the test build of the hypervisor tells the test kernel how a host NMI is asked for.
EVENTS = ("sent_again", "found_in_root", "found_late")
EVENTS_IMAGE = "test/pmuvisor.efi"
EVENTS_POSITION = 40

# KVM's own kernel has its mitigations off, as PMUvisor has; its guest's stay those of the other
# columns' Linux.
HOST_MITIGATIONS = "mitigations=off pmv.inner_mitigations=auto"

# Limits of one boot in seconds, many times what it takes alone (in the emulator: launch.py).
KERNEL_LIMIT = 180
KVM_LIMIT = 300
# Linux under the emulator's KVM: so many times the seconds of the other columns; its guest's MiB.
KVM_SLOWER = 2
KVM_GUEST_MEMORY = 512
NO_PERF_LIMIT = "sysctl.kernel.perf_cpu_time_max_percent=0"


@dataclasses.dataclass
class Boot:
    """One boot: what is started, and what it must bring."""
    name: str
    column: str
    title: str
    cells: dict                # experiment: items, or None where any number of them will do
    limit: int                 # seconds on real hardware
    estimate: float            # seconds, until a run has shown better
    program: str = "kernel"    # kernel (the test kernel), kvm (that, under Linux's KVM), linux
    words: tuple = ()          # the test kernel's jobs
    jobs: tuple = ()           # the jobs of Linux's init
    inner: tuple = ()          # those of Linux as the guest of that Linux's KVM
    config: str = ""           # PMUvisor's options
    efi: str = ""              # below build/; empty: build/pmuvisor.efi
    variant: str | None = None
    config_name: str = ""      # of another configuration of the column
    image: str = ""            # the variant of programs/payload/build.sh; empty: the small one
    knobs: tuple = ()          # of the emulator
    rename: dict = dataclasses.field(default_factory=dict)  # experiments that are another one here
    host: str = ""             # the suite whose kernel is booted; empty: this machine's
    append: str = ""
    memory: int = 512
    cpus: int = 1              # in the emulator; under its KVM the launcher's guest has one


def kernel_words(experiments, runs, operations):
    return tuple(f"measure:{name}:{runs}:{operations}" for name in experiments)


def bench_boot(column, kind):
    runs = KERNEL_RUNS if kind == "emulator" else METAL_RUNS
    program = "kvm" if columns.is_kvm(column) and kind == "emulator" else "kernel"
    return Boot(name=f"kernel-{column}", column=column, title="test kernel",
                cells=dict(KERNEL_ITEMS), program=program,
                words=kernel_words(KERNEL_ITEMS, runs, KERNEL_OPERATIONS),
                jobs=("kvm",) if program == "kvm" else (),
                image="kvm" if program == "kvm" else "", host=columns.option(column, "host"),
                append=kvm_words(column) if program == "kvm" else "",
                limit=KVM_LIMIT if program == "kvm" else KERNEL_LIMIT,
                estimate=60 if program == "kvm" else 12)


def ablation_boot(variant, kind):
    column, options, efi = VARIANTS[variant]
    runs = KERNEL_RUNS if kind == "emulator" else METAL_RUNS
    return Boot(name=f"ablation-{variant}", column=column, title=f"bookkeeping, {variant}",
                cells={"ablation": tuple(f"{item}@{variant}" for item in ABLATION_ITEMS)},
                words=kernel_words(["exit"], runs, KERNEL_OPERATIONS), config=options,
                rename={"exit": "ablation"}, efi=efi, variant=variant, limit=KERNEL_LIMIT,
                estimate=10)


def events_boot(variant):
    column, options, _ = VARIANTS[variant]
    n = KERNEL_OPERATIONS
    return Boot(name=f"events-{variant}", column=column, title=f"NMIs, bookkeeping {variant}",
                cells={"events": tuple(f"{item}@{variant}" for item in EVENTS)},
                words=(f"nmi-events:{n}",), config=f"console=none {options}",
                efi=EVENTS_IMAGE, variant=variant, limit=KERNEL_LIMIT, estimate=3,
                knobs=(f"nmi_root reason=18 exits=1-{n} position={EVENTS_POSITION}",
                       f"nmi_root reason=18 exits={n + 3}-{2 * n + 2} "
                       f"position={EVENTS_POSITION} host"))


def linux_boot(column, name, kind, quick):
    what = LINUX_BOOTS[name]
    pace = "quick" if quick and kind == "emulator" else kind
    # Hypercalls of a program; and the hypervisor is silent, so that the guest's lines stay whole.
    boot = Boot(name=f"{name}-{column}", column=column, title=f"Linux {name}",
                cells=dict(what["cells"]), program="linux", jobs=what["jobs"],
                image=what["image"], memory=what.get("memory", 512),
                cpus=what.get("cpus", 1) if kind == "emulator" else 1,
                config="console=none user_hypercalls=1", append=what["words"][pace],
                knobs=knobs_of(column, what) if kind == "emulator" else (),
                limit=what["limit"], estimate=what["estimate"][1 if quick else 0])
    return inside_kvm(boot) if columns.is_kvm(column) and kind == "emulator" else boot


def knobs_of(column, what):
    return tuple(text for text in (what.get("knobs"), HYPERVISOR_BIT if column == "native" else "")
                 if text)


def bare_boot(column, quick):
    """Program A.1 where CPUID has no hypervisor bit."""
    boot = linux_boot(column, "a1", "emulator", quick)
    return dataclasses.replace(boot, name=f"a1-{column}-bare", title="Linux a1, no hypervisor bit",
                               config=f"{boot.config} {BARE_OPTIONS[column]}".strip(),
                               jobs=("a1bench",), cells={BARE: A1_ITEMS}, knobs=(),
                               rename={"a1": BARE})


def two_boot(column):
    """nginx and wrk with a processor for each of them."""
    boot = linux_boot(column, "nginx", "emulator", False)
    longer = boot.append.replace(f"pmv.nginx_ms={NGINX_MS} ",
                                 f"pmv.nginx_ms={NGINX_MS * TWO_LONGER} ")
    return dataclasses.replace(boot, name=f"two-{column}", title="Linux nginx, 2 processors",
                               append=longer, estimate=2 * boot.estimate,
                               cells={TWO: PAIR}, rename={"nginx": TWO}, cpus=2,
                               memory=2 * boot.memory, knobs=(*boot.knobs, BOTH_PROCESSORS))


def again(boots, times):
    """Those whose figures do not repeat, so many times; all others once. In the emulator two boots of
    the same are alike to the last instruction: so each waits for another time before its one run."""
    for boot in boots:
        if times == 1 or not set(boot.cells) & set(pool.NOT_REPEATED):
            yield boot
            continue
        append = boot.append.replace(RUNS, RUNS_OF_SEVERAL)
        yield from (dataclasses.replace(
            boot, name=f"{boot.name}-{number}",
            append=f"{append} pmv.nginx_delay_us={number * DELAY_US}")
            for number in range(1, times + 1))


def config_boots(config, kind, quick):
    """The test kernel's and program A.1's boot of a column in another configuration."""
    row = columns.CONFIGS[config]
    name = row.variant
    for boot, experiments in ((bench_boot(row.on, kind), ("exit", "msr")),
                              (linux_boot(row.on, "a1", kind, quick), ("a1",))):
        items = tuple(f"{experiment}.{item}@{name}" for experiment, item in CONFIG_ITEMS
                      if experiment in experiments)
        kvm = columns.is_kvm(row.on)
        yield dataclasses.replace(
            boot, name=f"config-{name}-{boot.name.split('-')[0]}", config_name=name,
            efi=CONFIG_IMAGES.get(name, ""),
            title=f"{CONFIG_TITLES.get(name, row.options)}, {boot.title}", cells={"config": items},
            append=boot.append.replace(HOST_MITIGATIONS, row.options).replace(",context_switch", "")
            if kvm else boot.append,
            config=boot.config if kvm else f"{boot.config} {row.options}".strip(),
            jobs=tuple(job for job in boot.jobs if job != "context_switch"),
            inner=tuple(job for job in boot.inner if job != "context_switch"),
            **({"words": kernel_words(experiments, KERNEL_RUNS, KERNEL_OPERATIONS)}
               if boot.words else {}))


def kvm_words(column):
    """How KVM is loaded (programs/payload/kvm.c)."""
    mediated = columns.option(column, "mediated")
    return f"pmv.apicv=0 {HOST_MITIGATIONS}" + (f" pmv.mediated={mediated}" if mediated else "")


def inside_kvm(boot):
    """The same under the KVM of a Linux in the emulator, by its job kvm. Samples are ten times as
    dense there as on hardware, and each costs KVM so much that perf would leave some out."""
    words = f"{kvm_words(boot.column)} pmv.kvm={','.join(boot.jobs)} {boot.append} {NO_PERF_LIMIT}"
    return dataclasses.replace(
        boot, jobs=("kvm",), inner=boot.jobs, image=f"kvm-{boot.image or 'small'}",
        host=columns.option(boot.column, "host"),
        append=words, memory=boot.memory + KVM_GUEST_MEMORY, cpus=1, limit=boot.limit * KVM_SLOWER,
        estimate=boot.estimate * KVM_SLOWER)


def make(kind, names, quick=False, only=(), times=1):
    """The boots for the columns of these names. `only`: words that a boot's name may have. `times`:
    how often those that do not repeat are made."""
    boots = [bench_boot(column, kind) for column in names]
    boots += [linux_boot(column, name, kind, quick) for name in LINUX_BOOTS for column in names
              if not (quick and column in columns.PEERS and name in NOT_QUICK)]
    if kind == "emulator":
        boots += [bare_boot(column, quick) for column in BARE_OPTIONS if column in names]
    if kind == "emulator" and not quick:
        boots += [two_boot(column) for column in names if not columns.is_kvm(column)]
    if kind == "emulator":
        boots += [boot for config, row in columns.CONFIGS.items() if row.on in names
                  for boot in config_boots(config, kind, quick)]
    boots += [ablation_boot(variant, kind) for variant, what in VARIANTS.items()
              if what[0] in names]
    if kind == "emulator":
        boots += [events_boot(variant) for variant, what in VARIANTS.items()
                  if what[0] in names and not what[2]]
    return [boot for boot in again(boots, times)
            if not only or any(word in boot.name for word in only)]


NO_PEERS = "a KVM with a kernel of its own is booted in the emulator alone; on hardware the column " \
           "kvm is that of the kernel that runs"


def impossible(kind):
    """Columns that this kind of machine cannot have, with the reason."""
    if kind == "emulator":
        return {}
    there = dict.fromkeys(columns.PEERS, NO_PEERS)
    if kind == "nested":
        there["native"] = "a virtual machine is not the bare machine; for this column: make " \
                          "install ESP=DIR BENCH=auto"
    return there
