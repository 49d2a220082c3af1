# SPDX-License-Identifier: BSD-2-Clause
# plan.py: which boots a run makes in which column, and which cells each of them must bring, from
# measurements.ini. Nothing is run here.
import dataclasses
import re

from bench import columns, pool
from bench.columns import VARIANTS
from bench.measurements import ALL, KVM

KERNEL_RUNS = 5  # timed runs in the emulator: its TSC counts instructions, they are all alike
KERNEL_OPERATIONS = 100
METAL_RUNS = 101  # of a real TSC

RUNS = re.compile(r"pmv\.nginx_runs=\d+")
ONE_RUN = "pmv.nginx_runs=1"  # of each boot, where there are several
DELAY_US = 1301  # no part of a timer's period
# The second run of a boot. Two boots of the same words are alike to the last instruction. So in the
# second one Linux waits before its jobs, and each timer interrupt comes at another instruction. The
# test kernel has no timer: its second run is the same boot once more, by a knob that says nothing.
LATER = f" pmv.delay_us={DELAY_US}"
ONCE_MORE = "# once more"
SECOND = "-second"
# Experiments whose boots take too long for a second run.
ONE_RUN_ONLY = tuple(name for name, one in ALL.experiments.items() if one.get("second") == "no")
# Linux leaves out some work where it sees a hypervisor (an NMI's entry does not read DR7). So that
# both sides of a ratio execute the same, the emulator's bare processor says that there is one, too:
# CPUID.1:ECX[31], which is what Linux goes by; no leaf of a hypervisor's is there.
HYPERVISOR_BIT = "cpuid 1 0 ecx 0x80000000"
# The same without, on both sides: PMUvisor's guest has not to be told of a hypervisor, and then
# Linux does what it does on a bare machine. Experiment a1 of such a boot is experiment a1_bare.
BARE = "a1_bare"
BARE_OPTIONS = {"native": "", "msr+nmi": "hypervisor_bit=off"}
# Another job of A.1's boot, which other configurations leave out.
SWITCH = "context_switch"
# The same job with two processors, as in the thesis, in the emulator.
TWO = "nginx_2"

# Exits at which the bookkeeping has something to do. The emulator sends the NMIs, some of them
# before this root-mode instruction of an exit by VMCALL (reason 18; tests/kernel/test_nmi_events.c
# says which); the test build of the hypervisor tells the test kernel how a host NMI is asked for.
EVENTS = ALL.names("events")
EVENTS_IMAGE = "test/pmuvisor.efi"
EVENTS_POSITION = 40

# The experiments that have a boot of Linux of their own.
LINUX_BOOTS = tuple(one.name for one in ALL.of_program("linux") if not one.get("with"))

# Limits of one boot in seconds, many times what it takes alone (in the emulator: launch.py).
KERNEL_LIMIT = 180
KVM_LIMIT = 300
# Linux under the emulator's KVM: so many times the seconds of the other columns; its guest's MiB.
KVM_SLOWER = 2
KVM_GUEST_MEMORY = 512
MITIGATIONS = "mitigations="
# What the emulator's model lacks of a Skylake server with later microcode: MD_CLEAR, IBRS, STIBP,
# L1D_FLUSH and SSBD (CPUID.7.0:EDX), with IA32_SPEC_CTRL, IA32_PRED_CMD and IA32_FLUSH_CMD.
SPECULATION = ("cpuid 7 0 edx 0x9c000400", "msr 0x48 0", "msr 0x49 0", "msr 0x10b 0")
NO_PERF_LIMIT = "sysctl.kernel.perf_cpu_time_max_percent=0"


@dataclasses.dataclass
class Boot:
    """One boot: what is started, and what it must bring."""

    name: str
    column: str
    title: str
    cells: dict  # experiment: items, or None where any number of them will do
    limit: int  # seconds on real hardware
    program: str = "kernel"  # kernel (the test kernel), kvm (that, under Linux's KVM), linux
    words: tuple = ()  # the test kernel's jobs
    jobs: tuple = ()  # the jobs of Linux's init
    inner: tuple = ()  # those of Linux as the guest of that Linux's KVM
    config: str = ""  # PMUvisor's options
    efi: str = ""  # below build/; empty: build/pmuvisor.efi
    variant: str | None = None
    config_name: str = ""  # of another configuration of the column
    image: str = ""  # the variant of programs/payload/build.sh; empty: the small one
    knobs: tuple = ()  # of the emulator
    rename: dict = dataclasses.field(default_factory=dict)  # experiments that are another one here
    host: str = ""  # the suite whose kernel is booted; empty: this machine's
    append: str = ""
    memory: int = 512
    cpus: int = 1  # in the emulator; under its KVM the launcher's guest has as many
    first: str = ""  # of a second run: the name of the first


def kernel_boot(name, column, title, cells, kind, experiments, **more):
    """The test kernel's boot that measures these experiments."""
    runs = KERNEL_RUNS if kind == "emulator" else METAL_RUNS
    words = tuple(f"measure:{one}:{runs}:{KERNEL_OPERATIONS}" for one in experiments)
    return Boot(name, column, title, cells, KERNEL_LIMIT, words=words, **more)


def bench_boot(column, kind, experiments=()):
    names = experiments or [one.name for one in ALL.of_program("kernel")]
    cells = {name: ALL.names(name) for name in names}
    boot = kernel_boot(f"kernel-{column}", column, "test kernel", cells, kind, names)
    boot = dataclasses.replace(boot, host=columns.option(column, "host"))
    if not (columns.is_kvm(column) and kind == "emulator"):
        return boot
    append = kvm_words(column)
    more = {"program": "kvm", "jobs": ("kvm",), "image": "kvm", "append": append}
    return dataclasses.replace(boot, limit=KVM_LIMIT, **more)


def ablation_boot(part, kind):
    items = tuple(f"{item.name}@{part.variant}" for item in ALL.items_in("ablation"))
    return kernel_boot(
        f"ablation-{part.variant}",
        part.on,
        f"bookkeeping, {part.variant}",
        {"ablation": items},
        kind,
        ["exit"],
        config=part.options,
        rename={"exit": "ablation"},
        efi=part.efi,
        variant=part.variant,
    )


def events_boot(part):
    n = KERNEL_OPERATIONS
    return Boot(
        f"events-{part.variant}",
        part.on,
        f"NMIs, bookkeeping {part.variant}",
        {"events": tuple(f"{item}@{part.variant}" for item in EVENTS)},
        KERNEL_LIMIT,
        words=(f"nmi-events:{n}",),
        config=f"console=none {part.options}",
        efi=EVENTS_IMAGE,
        variant=part.variant,
        knobs=(
            f"nmi_root reason=18 exits=1-{n} position={EVENTS_POSITION}",
            f"nmi_root reason=18 exits={n + 3}-{2 * n + 2} position={EVENTS_POSITION} host",
        ),
    )


def linux_boot(column, name, kind, quick):
    boot = linux_alone(column, name, kind, quick)
    return inside_kvm(boot) if columns.is_kvm(column) and kind == "emulator" else boot


def linux_alone(column, name, kind, quick):
    """Without a Linux below it."""
    what, emulated = ALL.experiments[name], kind == "emulator"
    together = [what, *(other for other in ALL.of_program("linux") if other.get("with") == name)]
    quickly = what.get("quick", what.get("words"))
    knobs = (what.get("knobs"), HYPERVISOR_BIT if column == "native" else "")
    # Hypercalls of a program; and the hypervisor is silent, so that the guest's lines stay whole.
    return Boot(
        name=f"{name}-{column}",
        column=column,
        title=f"Linux {name}",
        cells={one.name: ALL.names(one.name) for one in together},
        program="linux",
        jobs=tuple(one.get("job", one.name) for one in together),
        image=what.get("image"),
        memory=int(what.get("memory", 512)),
        cpus=int(what.get("cpus", 1)) if emulated else 1,
        config="console=none user_hypercalls=1",
        append=(quickly if quick else what.get("words")) if emulated else "",
        knobs=tuple(filter(None, knobs)) if emulated else (),
        limit=int(what.get("limit")),
    )


def bare_boot(column, quick):
    """Program A.1 where CPUID has no hypervisor bit."""
    boot = linux_boot(column, "a1", "emulator", quick)
    return dataclasses.replace(
        boot,
        name=f"a1-{column}-bare",
        title="Linux a1, no hypervisor bit",
        config=f"{boot.config} {BARE_OPTIONS[column]}".strip(),
        jobs=("a1bench",),
        cells={BARE: ALL.names(BARE)},
        knobs=(),
        rename={"a1": BARE},
    )


def two_boot(column):
    """nginx and wrk with a processor for each of them."""
    boot, what = linux_alone(column, "nginx", "emulator", False), ALL.experiments[TWO]
    boot = dataclasses.replace(
        boot,
        name=f"two-{column}",
        title="Linux nginx, 2 processors",
        append=what.get("words"),
        cells={TWO: ALL.names(TWO)},
        rename={"nginx": TWO},
        cpus=2,
        memory=2 * boot.memory,
        knobs=(*boot.knobs, what.get("knobs")),
    )
    return inside_kvm(boot) if columns.is_kvm(column) else boot


def again(boots, times):
    """Those whose figures do not repeat, so many times; all others once. In the emulator two boots
    of the same are alike to the last instruction: so each waits for another time before its one
    run.
    """
    for boot in boots:
        if times == 1 or not set(boot.cells) & set(pool.NOT_REPEATED):
            yield boot
            continue
        append = RUNS.sub(ONE_RUN, boot.append)
        yield from (
            dataclasses.replace(
                boot,
                name=f"{boot.name}-{number}",
                append=f"{append} pmv.nginx_delay_us={number * DELAY_US}",
            )
            for number in range(1, times + 1)
        )


def second(boot):
    """The second run of a boot."""
    if boot.program == "kernel":
        more = {"knobs": (*boot.knobs, ONCE_MORE)}
    else:
        more = {"append": boot.append + LATER}
    return dataclasses.replace(boot, name=f"{boot.name}{SECOND}", first=boot.name, **more)


def runs_twice(boot, quick):
    """Whether a boot has a second run. In a quick run, only the test kernel's boots have one."""
    once = any(name in pool.NOT_REPEATED or name in ONE_RUN_ONLY for name in boot.cells)
    return not once and not (quick and boot.program != "kernel")


def config_boots(row, kind, quick):
    """The test kernel's and program A.1's boot of a column in another configuration."""
    for boot, experiments in (
        (bench_boot(row.on, kind, ("exit", "msr")), ("exit", "msr")),
        (linux_boot(row.on, "a1", kind, quick), ("a1",)),
    ):
        items = tuple(
            f"{item.experiment}.{item.name}@{row.name}"
            for item in ALL.items_in("config")
            if item.experiment in experiments
        )
        if columns.is_kvm(row.on):
            append = boot.append.replace(KVM, host_words(row.options))
            more = {"append": append.replace(f",{SWITCH}", "")}
        else:
            more = {"config": f"{boot.config} {row.options}".strip()}
        if MITIGATIONS in row.options and kind == "emulator":
            more["knobs"] = (*boot.knobs, *SPECULATION)
        yield dataclasses.replace(
            boot,
            name=f"config-{row.name}-{boot.name.split('-')[0]}",
            config_name=row.name,
            efi=row.efi,
            title=f"{row.title}, {boot.title}",
            cells={"config": items},
            jobs=tuple(job for job in boot.jobs if job != SWITCH),
            inner=tuple(job for job in boot.inner if job != SWITCH),
            **more,
        )


def kvm_words(column):
    """How KVM is loaded (programs/payload/kvm.c)."""
    mediated = columns.option(column, "mediated")
    return KVM + (f" pmv.mediated={mediated}" if mediated else "")


def host_words(options):
    """Words of KVM's own kernel in another configuration."""
    own = MITIGATIONS in options
    return " ".join(
        [*(word for word in KVM.split() if not own or MITIGATIONS not in word), options]
    )


def inside_kvm(boot):
    """The same under the KVM of a Linux in the emulator, by its job kvm. Samples are ten times as
    dense there as on hardware, and each costs KVM so much that perf would leave some out."""
    words = f"{kvm_words(boot.column)} pmv.kvm={','.join(boot.jobs)} {boot.append} {NO_PERF_LIMIT}"
    if boot.cpus > 1:
        words += f" pmv.kvm_cpus={boot.cpus}"
    return dataclasses.replace(
        boot,
        jobs=("kvm",),
        inner=boot.jobs,
        image=f"kvm-{boot.image or 'small'}",
        host=columns.option(boot.column, "host"),
        append=words,
        memory=boot.memory + KVM_GUEST_MEMORY,
        limit=boot.limit * KVM_SLOWER,
    )


def make(kind, names, quick=False, only=(), times=1):
    """The boots for the columns of these names. `only`: words that a boot's name may have; a second
    run has the words of its first. `times`: how often those that do not repeat are made."""
    boots = [bench_boot(column, kind) for column in names]
    parts = [part for part in VARIANTS.values() if part.on in names]
    boots += [
        linux_boot(column, name, kind, quick)
        for name in LINUX_BOOTS
        for column in names
        if not (
            quick and column in columns.PEERS and ALL.experiments[name].get("peers_quick") == "no"
        )
    ]
    if kind == "emulator":
        boots += [bare_boot(column, quick) for column in BARE_OPTIONS if column in names]
        boots += [] if quick else [two_boot(column) for column in names]
        for row in columns.CONFIGS.values():
            boots += config_boots(row, kind, quick) if row.on in names else []
    boots += [ablation_boot(part, kind) for part in parts]
    if kind == "emulator":
        boots += [events_boot(part) for part in parts if not part.efi]
        boots += [second(boot) for boot in boots if runs_twice(boot, quick)]
    return [
        boot
        for boot in again(boots, times)
        if not only or any(word in (boot.first or boot.name) for word in only)
    ]


NO_PEERS = (
    "a KVM with a kernel of its own is booted in the emulator, or by a stick (make usb "
    "BENCH=thesis); here the column kvm is that of the kernel that runs"
)


def impossible(kind):
    """Columns that this kind of machine cannot have, with the reason."""
    if kind == "emulator":
        return {}
    there = dict.fromkeys(columns.PEERS, NO_PEERS)
    if kind == "nested":
        there["native"] = (
            "a virtual machine is not the bare machine; for this column: make "
            "install ESP=DIR BENCH=thesis"
        )
    return there
