# SPDX-License-Identifier: BSD-2-Clause
# test_events.py: the boots of the measurements in which the bookkeeping has something to do. Each
# NMI reaches its side with all steps, and the NMIs of one kind are lost without theirs.

import pytest

from bench import plan as bench_plan
from tests.e2e import kernel
from tests.e2e.host import Plan, results, run

# NMIs that arrive, of each kind, by what is left out.
ALL = {item: bench_plan.KERNEL_OPERATIONS for item in bench_plan.EVENTS}
ARRIVE = {
    "all": ALL,
    "lazy": ALL,
    "no_skid": {**ALL, "sent_again": 0},
    "no_lost": {**ALL, "found_late": 0},
    "none": {**ALL, "sent_again": 0, "found_late": 0},
}


@pytest.mark.parametrize("variant", ARRIVE)
def test_arrive(lab, variant):
    boot = bench_plan.events_boot(bench_plan.VARIANTS[variant])
    done = run(lab, boot.name, Plan(*boot.knobs).add(*boot.words), config=boot.config)
    assert all(results(done).values()), results(done)
    rows = {row["item"]: row for row in done.lines("bench")}
    arrived = {item: int(row["value"]) for item, row in rows.items()}
    assert arrived == ARRIVE[variant], f"{arrived}, wanted {ARRIVE[variant]}"
    root = {
        item: done.region(row["region"])["root"]["instructions"] // int(row["ops"])
        for item, row in rows.items()
    }
    return ", ".join(f"{item} {count}" for item, count in root.items())


def pair(boot, item):
    """Root instructions and VMREADs of one VMCALL and one CPUID."""
    row = next(row for row in boot.lines("bench") if row["item"] == item)
    root = boot.region(row["region"])["root"]
    return tuple(root[name] / int(row["ops"]) for name in ("instructions", "vmread"))


def test_nothing_to_do(lab):
    """What the table subtracts is the ablation's VMCALL and CPUID on the plain build: with nothing
    to do the test build's exits count the same. A host NMI that nobody answers leaves its note,
    which each exit then looks at: that is all that is left of it without its step."""
    boot = bench_plan.events_boot(bench_plan.VARIANTS["none"])
    plan = Plan().add(*boot.words)
    plain = kernel.run(lab, "events-nothing-plain", plan, config=boot.config)
    hooks = run(lab, "events-nothing-hooks", plan, config=boot.config)
    bare = pair(plain, "sent_again")
    exits = kernel.run(
        lab,
        "events-exits",
        Plan().add(*bench_plan.ablation_boot(bench_plan.VARIANTS["none"], "emulator").words),
        config=boot.config,
    )
    both = [pair(exits, item) for item in ("vmcall", "cpuid")]
    assert bare == tuple(map(sum, zip(*both))), f"{bare}, the ablation's two exits {both}"
    assert pair(hooks, "sent_again") == bare, f"test build {pair(hooks, 'sent_again')}, {bare}"
    assert pair(hooks, "found_in_root") == bare, f"{pair(hooks, 'found_in_root')}, wanted {bare}"
    unanswered = pair(hooks, "found_late")
    assert unanswered[0] > bare[0] and unanswered[1] == bare[1], f"{unanswered}, {bare}"
    return f"{bare[0]:.0f} root instructions; with an unanswered note {unanswered[0]:.0f}"
