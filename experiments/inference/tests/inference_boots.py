# SPDX-License-Identifier: BSD-2-Clause
# inference_boots.py: the boots in which one load runs, what a host could see of each, and who ran
# by the guest's own scheduler. Under KVM twice, with another word for the host's init the second
# time: so each interrupt comes at another instruction. Under PMUvisor with a tick, and with the
# flow trace.
import functools
import os

from experiments.flow.analysis import flow_log, sched_text, seen_by_host, truth
from experiments.flow.analysis.identity import Identity
from experiments.flow.tests import kvm_traces, test_paper_method
from experiments.inference.analysis import inference, sights
from experiments.shared.tests import handed_over
from testbed.machine import STATUS_POWEROFF, path, tool

TICK_MS, TICK_HZ = 1, 1000
BEFORE_TICKS = handed_over.TSC_HZ // 10  # of the run before what is scored
LOG = f"guest_files {handed_over.FOLDER}\nflow_log log\n"


def again(lab):
    """test_paper_method.one_level() with a word more."""
    done = lab.emulator(
        "inference-kvm-again",
        entry="native",
        jobs="kvm",
        memory=kvm_traces.MEMORY,
        limit=kvm_traces.LIMIT,
        initrd=path("build/payload/kvm-flowtruth-cloud.img"),
        append="pmv.kvm=flowtruth pmv.again=1 nmi_watchdog=0",
        knobs=f"tsc_hz {handed_over.TSC_HZ}\n{LOG}",
    )
    done.expect_status(STATUS_POWEROFF)
    return done


def ticking(lab):
    """PMUvisor with nothing but its tick: the VMX-preemption timer."""
    return handed_over.boot(
        lab,
        "inference-tick",
        "flowtruth",
        append="nmi_watchdog=0",
        knobs="flow_log log\n",
        config=f"console=none tick={TICK_MS} user_hypercalls=1",
    )[0]


def tracing(lab):
    """The boot of test_trace_truth.py on one processor: HLT, interrupts and loads of CR3 exit."""
    return handed_over.boot(
        lab,
        "flowtruth-1",
        "flowtruth",
        append="nmi_watchdog=0",
        knobs="flow_log log\n",
        config="console=none trace=flow trace_ring=4 user_hypercalls=1",
    )[0]


KVM = {"kvm": test_paper_method.one_level, "kvm, again": again}


@functools.cache
def read(lab, make):
    """What there is to see of a boot, its Truths, whose table is whose, the function from CR3 to a
    key, whether there is page-table isolation, and the prices of its exits."""
    done = make(lab)
    found = {}
    for name in ("sched", "tgid", "processes"):
        with open(os.path.join(done.path(handed_over.FOLDER), name), encoding="utf-8") as file:
            found[name] = file.read()
    who = (
        sched_text.pairs(found["tgid"]),
        sched_text.kernel_threads(found["processes"], found["sched"]),
    )
    events = list(seen_by_host.guest_time(flow_log.events(done.path("log"))))
    identity = Identity(seen_by_host.source(list(seen_by_host.stays(events))).processors)
    loads = flow_log.table_changes(events, (0,), identity.key)
    switches = sched_text.switches(found["sched"])
    true = truth.build(truth.at_loads(switches, {0: [load for _, load in loads[0]]}, *who), *who)
    processes = truth.match_processes({0: seen_by_host.tables(events, identity.key)}, true)
    assert len(set(processes.values())) == len(processes), f"a process has two tables: {processes}"
    seen = sights.run(events, handed_over.TSC_HZ, true.start - BEFORE_TICKS, true.end)
    return (
        seen,
        (true, truth.build(switches, *who)),
        processes,
        identity.key,
        identity.pti,
        inference.prices(done.ledger),
    )


def environment(lab):
    """A line of where the counts are from."""
    kernel = os.path.basename(os.path.realpath(lab.kernel()))
    commit = tool(["git", "-C", path(), "log", "-1", "--format=%h"]).strip()
    return (
        f"emulator, one processor, a TSC of {handed_over.TSC_HZ:,} Hz; Debian's {kernel} as host "
        f"and guest; "
        f"built at commit {commit}"
    )
