# SPDX-License-Identifier: BSD-2-Clause
# plan.py: which boots a run makes in which column, and which cells each of them must bring. Nothing
# is run here.
import dataclasses

import columns

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

# What Linux runs: the jobs of its init (programs/payload, programs/workloads, programs/accuracy,
# programs/real), what they measure, and their words on the kernel's command line: in the emulator,
# quick there, and on a machine with time of its own, where the jobs' own defaults hold.
# Listing 2's functions take 40 instructions an iteration: 20,000 samples are 1,000 million of them.
PROFILE_PERIOD = 50021
# The small inputs have few misses of the last level: ten times as dense as the paper's.
REAL_PERIODS = "pmv.real_periods=40000:100:500"
LINUX_BOOTS = {
    "a1": {
        "jobs": ("a1bench",), "image": "", "cells": {"a1": A1_ITEMS},
        "limit": 300, "estimate": (20, 15),
        "words": {"emulator": "pmv.a1_runs=5", "quick": "pmv.a1_runs=1", "nested": ""}},
    "profile": {
        "jobs": ("profile",), "image": "bench", "cells": {"profile": PAIR},
        "limit": 600, "estimate": (90, 40),
        "words": {"emulator": f"pmv.iter=25100000 pmv.period={PROFILE_PERIOD} pmv.profile_runs=1",
                  "quick": f"pmv.iter=5000000 pmv.period={PROFILE_PERIOD} pmv.profile_runs=1",
                  "nested": ""}},
    "nginx": {
        "jobs": ("nginx",), "image": "bench", "cells": {"nginx": PAIR},
        "limit": 1500, "estimate": (130, 110),
        "words": {"emulator": "pmv.nginx_ms=250", "quick": "pmv.nginx_ms=100", "nested": ""}},
    "accuracy": {
        "jobs": ("accuracy",), "image": "bench", "cells": {"accuracy": None},
        "limit": 600, "estimate": (60, 60),
        "words": {"emulator": "pmv.accuracy=1:1:16", "quick": "pmv.accuracy=1:1:16",
                  "nested": ""}},
    "scenarios": {
        "jobs": ("scenarios",), "image": "bench", "cells": {"scenarios": None},
        "limit": 600, "estimate": (60, 60), "cpus": 2, "memory": 1024,
        "words": {"emulator": "pmv.accuracy=1:1:16", "quick": "pmv.accuracy=1:1:16",
                  "nested": ""}},
    "real": {
        "jobs": ("real",), "image": "real", "cells": {"real": None},
        "limit": 1500, "estimate": (150, 60), "memory": 768,
        "words": {"emulator": f"pmv.real_scale=1 {REAL_PERIODS}",
                  "quick": f"pmv.real_scale=1 {REAL_PERIODS} pmv.real=gzip,sqlite3,glpsol",
                  "nested": ""}},
}

# Of the ablation: the boots that the boot menu has as well, and one with another image than theirs.
# variant: (column, options, another image than the usual one)
VARIANTS = {part.variant: (part.on, part.options, None) for part in columns.PARTS.values()}
VARIANTS["compiled_out"] = ("msr+nmi", "bookkeeping=all", "no_bookkeeping")
ABLATION_ITEMS = ("cpuid", "vmcall", "inl", "outl", "cpuid_blocked")

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
    mutant: str | None = None  # a hypervisor of build/mutants/
    variant: str | None = None
    image: str = ""            # the variant of programs/payload/build.sh; empty: the small one
    append: str = ""
    memory: int = 512
    cpus: int = 1              # in the emulator; under its KVM the launcher's guest has one


def kernel_words(experiments, runs, operations):
    return tuple(f"measure:{name}:{runs}:{operations}" for name in experiments)


def bench_boot(column, kind):
    runs = KERNEL_RUNS if kind == "emulator" else METAL_RUNS
    program = "kvm" if column == "kvm" and kind == "emulator" else "kernel"
    return Boot(name=f"kernel-{column}", column=column, title="test kernel",
                cells=dict(KERNEL_ITEMS), program=program,
                words=kernel_words(KERNEL_ITEMS, runs, KERNEL_OPERATIONS),
                jobs=("kvm",) if program == "kvm" else (),
                image="kvm" if program == "kvm" else "",
                limit=KVM_LIMIT if program == "kvm" else KERNEL_LIMIT,
                estimate=60 if program == "kvm" else 12)


def ablation_boot(variant, kind):
    column, options, mutant = VARIANTS[variant]
    runs = KERNEL_RUNS if kind == "emulator" else METAL_RUNS
    return Boot(name=f"ablation-{variant}", column=column, title=f"bookkeeping, {variant}",
                cells={"ablation": tuple(f"{item}@{variant}" for item in ABLATION_ITEMS)},
                words=kernel_words(["exit"], runs, KERNEL_OPERATIONS), config=options,
                mutant=mutant, variant=variant, limit=KERNEL_LIMIT, estimate=10)


def linux_boot(column, name, kind, quick):
    what = LINUX_BOOTS[name]
    pace = "quick" if quick and kind == "emulator" else kind
    # Hypercalls of a program; and the hypervisor is silent, so that the guest's lines stay whole.
    boot = Boot(name=f"{name}-{column}", column=column, title=f"Linux {name}",
                cells=dict(what["cells"]), program="linux", jobs=what["jobs"],
                image=what["image"], memory=what.get("memory", 512),
                cpus=what.get("cpus", 1) if kind == "emulator" else 1,
                config="console=none user_hypercalls=1", append=what["words"][pace],
                limit=what["limit"], estimate=what["estimate"][1 if quick else 0])
    return inside_kvm(boot) if column == "kvm" and kind == "emulator" else boot


def inside_kvm(boot):
    """The same under the KVM of a Linux in the emulator, by its job kvm. Samples are ten times as
    dense there as on hardware, and each costs KVM so much that perf would leave some out."""
    words = f"pmv.apicv=0 pmv.kvm={','.join(boot.jobs)} {boot.append} {NO_PERF_LIMIT}"
    return dataclasses.replace(
        boot, jobs=("kvm",), inner=boot.jobs, image=f"kvm-{boot.image or 'small'}",
        append=words, memory=boot.memory + KVM_GUEST_MEMORY, cpus=1, limit=boot.limit * KVM_SLOWER,
        estimate=boot.estimate * KVM_SLOWER)


def make(kind, names, quick=False, only=()):
    """The boots for the columns of these names. `only`: words that a boot's name may have."""
    boots = [bench_boot(column, kind) for column in names]
    boots += [linux_boot(column, name, kind, quick) for name in LINUX_BOOTS for column in names]
    boots += [ablation_boot(variant, kind) for variant, what in VARIANTS.items()
              if what[0] in names]
    if only:
        boots = [boot for boot in boots if any(word in boot.name for word in only)]
    return boots


def impossible(kind):
    """Columns that this kind of machine cannot have, with the reason."""
    if kind == "nested":
        return {"native": "a virtual machine is not the bare machine; for this column: make "
                          "install ESP=DIR BENCH=auto"}
    return {}
