# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import Cell, Table, number, percent
from experiments.flow.analysis import analyses, levels, truth
from experiments.flow.analysis import virtflow_published as published
from experiments.flow.analysis.states import timeline
from experiments.flow.tests import kvm_traces, test_kvm_trace
from experiments.flow.tests import test_paper_method as paper_test
from experiments.flow.tests import test_trace_cost as cost
from experiments.flow.tests import test_trace_truth as truth_test
from testbed.machine import instructions
from tests.e2e.guest import EXIT_REASON_CPUID, REGION_CPUID

LOAD_TEXTS = {
    "compute": "computes",
    "calls": "calls of the system",
    "sleeps": "sleeps",
    "switches": "switches",
    "disk": "reads the disk",
    "net": "TCP on loopback",
    "memory": "takes memory",
}
# Loads of Table VII that are like one of these.
LIKE = {"compute": "CPU", "disk": "File I/O", "net": "Net I/O", "memory": "Memory"}


def add_scores(table, scores):
    for label, text in truth.ROWS.items():
        table.add(label, [Cell(text(score)) for score in scores])
    return table


def of_truth(lab, _machine):
    scores = truth_test.scores(lab, truth_test.FEW)[0]
    return add_scores(
        Table(
            "flow-truth",
            "Who ran: each way against the guest's own scheduler",
            "count",
            [name for name, _ in scores],
            [("of one run, one processor", len(scores))],
            reading=[
                "Every way reads the same run; what it does not have was left out. A switch is "
                "found where it is at its place, and invented where the scheduler has none."
            ],
        ),
        [score for _, score in scores],
    )


def of_paper(lab, _machine):
    scores = [paper_test.scores_of(lab, level) for level in paper_test.LEVELS]
    return add_scores(
        Table(
            "flow-paper",
            "Who ran: the paper's method on each exit of KVM with its CR3",
            "count",
            [name for found in scores for name, _ in found],
            [("KVM's guest", 2), ("PMUvisor's guest, under KVM", 2)],
            reading=[
                "What the paper's module reads of the VMCS is here of the emulator's list. Read "
                "backwards: the time between two exits is the later one's."
            ],
        ),
        [score for found in scores for _, score in found],
    )


def of_cost(table, lab, _machine):
    for load, text in LOAD_TEXTS.items():
        base = sum(cost.account(lab, "off", load)[:2])
        cells = []
        for level in cost.LEVELS[1:]:
            guest, root, exits = cost.account(lab, level, load)
            cells += [
                Cell(number(exits)),
                Cell(number(root)),
                Cell(percent(100 * (guest + root - base) / base, 2)),
            ]
        theirs = published.TABLE_7.get(LIKE.get(load), ())
        table.add(
            f"{text}" + (f" (theirs: {LIKE[load]})" if theirs else ""),
            cells + [Cell(f"{value} %", "published") for value in theirs],
        )


def of_own(table, lab, _machine):
    table.reading.append(
        "The load is 2,000 switches of processes and little else. The paper says almost "
        f"{published.SCHED_SWITCH_PERCENT} % for sched_switch in the guest, of a load that it does "
        "not name."
    )
    plain = sum(cost.account(lab, "off", "switches")[:2])
    traced = cost.boot(lab, "off").region(cost.TRACED)
    own = instructions(traced)
    flow = sum(cost.account(lab, "flow", "switches")[:2])
    for text, value in (("sched_switch in the guest", own), ("trace=flow", flow)):
        table.add(text, [Cell(percent(100 * (value / plain - 1), 2))])


def of_record(table, lab, _machine):
    for level in cost.LEVELS:
        found = cost.boot(lab, level).region(REGION_CPUID)["exits"][EXIT_REASON_CPUID]
        table.add(
            f"trace={level}: CPUID",
            [Cell(number(found[what]["max"])) for what in ("root_instructions", "vmcs_accesses")],
        )
    flow = cost.boot(lab, "flow")
    exits = [one for load in cost.LOADS.values() for one in flow.region(load)["exits"].values()]
    for name in sorted({one["name"] for one in exits}):
        mine = [one for one in exits if one["name"] == name]
        count = sum(one["count"] for one in mine)
        means = [
            sum(one[what]["sum"] for one in mine) / count
            for what in ("root_instructions", "vmcs_accesses")
        ]
        table.add(f"trace=flow: {name}, mean", [Cell(f"{mean:.0f}") for mean in means])


def of_wakes(table, lab, _machine):
    source = truth_test.run(lab, truth_test.FEW)[0]
    for row in analyses.wake_ups(timeline(source)):
        found = sorted(row.latencies)
        if row.process is not None and len(found) >= 3:
            table.add(
                f"vector {row.vector:#x}",
                [
                    Cell(number(value))
                    for value in (len(found), found[0], found[len(found) // 2], found[-1])
                ],
            )
    table.rows = table.rows[:12]


def of_wake_layers(table, lab, _machine):
    for name, found in test_kvm_trace.wake_ups(lab):
        means = [
            sum(each.get(layer, 0) for each in found) / len(found)
            for layer in (levels.WAIT, levels.ROOT, 1 if name != "KVM" else None)
        ]
        values = len(found), *map(round, means), round(sum(means))
        table.add(name, [Cell(number(value)) for value in values])


def of_layers(table, lab, _machine):
    for load, text in LOAD_TEXTS.items():
        guest, root, _ = cost.account(lab, "off", load)
        theirs = published.TABLE_6["VM-Linux"] if load == "compute" else None
        table.add(
            f"PMUvisor alone: {text}",
            [
                Cell(percent(100 * guest / (guest + root), 2)),
                Cell(percent(100 * root / (guest + root), 2)),
                *([Cell(f"{theirs} %", "published")] if theirs else []),
            ],
        )
    region = test_kvm_trace.plain(lab).region(test_kvm_trace.REGION_PAIR)
    guest, root = (region[mode]["instructions"] for mode in ("nonroot", "root"))
    table.add(
        "KVM alone: a pair hands a byte over",
        [Cell(percent(100 * part / (guest + root), 2)) for part in (guest, root)],
    )
    thread = test_kvm_trace.one(kvm_traces.host(test_kvm_trace.nested(lab), "pair"))
    spent = {
        key: time
        for key, time in levels.times(thread.levels.intervals).items()
        if key[0] == levels.RUNNING
    }
    whole, top = sum(spent.values()), max(level for _, level in spent)
    inside = sum(time for (_, level), time in spent.items() if level == top)
    table.add(
        "PMUvisor above KVM: the same",
        [
            Cell(percent(100 * inside / whole, 2)),
            Cell(percent(100 * (1 - inside / whole), 2)),
            Cell(f"{published.TABLE_6['Nested-Linux']} %", "published"),
        ],
    )


def of_tracepoints(table, lab, _machine):
    boot = test_kvm_trace.plain(lab)
    thread = test_kvm_trace.one(kvm_traces.host(boot))
    exits = test_kvm_trace.expect_ledger(boot, thread)
    table.reading.append(
        f"Of Debian's KVM: {number(exits)} exits, each the ledger's. With EPT the kprobe finds CR3 "
        "at no entry: KVM does not read it."
    )
    for event, method in published.TABLE_3.items():
        table.add(event, [Cell(method, "published"), Cell("yes")])
