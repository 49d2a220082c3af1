# SPDX-License-Identifier: BSD-2-Clause
# test_known.py: what is known of processes without a name, on records by hand.
from experiments.flow.analysis import known
from experiments.flow.analysis.exit_reasons import CR_ACCESS
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    C_STACK,
    WORKER_STACK,
    A,
    B,
    C,
    flow,
    halt,
    kernel_tick,
    load,
    record,
    tick,
    wake,
)
from experiments.flow.analysis.identity import TABLE_MASK

FAR_RIP = 0x402345
MAPS = [["0x400000", "0x401fff", "x"], ["0x7f000000", "0x7f001000", "w"]]
NAMES = {
    "pti": False,
    "tasks": [
        {"pid": 7, "tid": 7, "comm": "calm", "pgd": hex(A), "stack": None, "maps": MAPS},
        {"pid": 8, "tid": 8, "comm": "one", "pgd": None, "stack": None, "maps": MAPS},
        {"pid": 9, "tid": 9, "comm": "other", "pgd": None, "stack": None, "maps": MAPS},
    ],
}


def facts(*records, names=None):
    line = flow(*records, names=names)
    return {
        key: dict(zip(known.HEADS, texts))
        for key, texts in known.of_nameless(line, lambda cr3: cr3 & TABLE_MASK).items()
    }


def test_named_is_left_out():
    found = facts(load(0, A, 0), tick(500, A), load(600, B, A_STACK), tick(900, B), names=NAMES)
    assert list(found) == [B] and set(facts(load(0, A, 0), tick(500, A))) == {A}


def test_where_it_comes_from():
    """Who ran before it on the processor where it first was, idle time, or nothing that was
    seen."""
    found = facts(
        load(0, A, 0),
        tick(500, A),
        load(600, B, A_STACK),
        halt(1000, B),
        wake(2000, B),
        load(2100, C, 0x10),
        tick(2500, C),
    )
    assert [found[key]["after"] for key in (A, B, C)] == ["nothing seen", f"cr3 {A:#x}", "idle"]
    assert [found[key]["first seen, ms"] for key in (A, B)] == ["0.000", "0.001"]
    assert found[B]["processors"] == "0"


def test_named_before_it():
    found = facts(load(0, A, 0), tick(500, A), load(600, B, A_STACK), tick(900, B), names=NAMES)
    assert found[B]["after"] == "calm [7]"


def test_user_space():
    """Its exits there with the first and the last RIP; a load of CR3 is not of whom it loads."""
    found = facts(
        load(0, A, 0),
        tick(500, A),
        tick(600, A)._replace(rip=FAR_RIP),
        record(700, CR_ACCESS, B, 0x401000, A_STACK),
        kernel_tick(900, B, B_STACK),
    )
    assert (found[A]["user exits"], found[A]["user RIPs"]) == ("2", "0x401000 to 0x402345")
    assert (found[B]["user exits"], found[B]["user RIPs"]) == ("0", "none")


def test_whom_it_fits():
    """All that its exits fit, but who has a table of his own; the list has an end."""
    records = [
        load(0, A, 0),
        tick(500, A),
        load(600, B, A_STACK),
        tick(900, B),
        load(1000, C, B_STACK),
        kernel_tick(1400, C, C_STACK),
    ]
    found = facts(*records, names=NAMES)
    assert (found[B]["may be"], found[C]["may be"]) == ("one [8], other [9]", "not known")
    more = [
        {"pid": pid, "tid": pid, "comm": "w", "pgd": None, "stack": None, "maps": MAPS}
        for pid in range(10, 20)
    ]
    found = facts(*records, names={**NAMES, "tasks": NAMES["tasks"] + more})
    assert found[B]["may be"].endswith("w [13] and 6 more")
    assert facts(*records)[B]["may be"] == "not known"


def test_kernel_threads():
    """A thread that comes with the tables of three has none of its own; the idle one is none of
    them."""
    records, at = [load(0, A, 0)], 0
    for table in (A, B, C, A, B, C):
        at += 1000
        records += [
            kernel_tick(at, table, WORKER_STACK),
            kernel_tick(at + 100, table, A_STACK + table // 0x1000),
            load(at + 200, {A: B, B: C, C: A}[table], A_STACK + table // 0x1000),
        ]
    records += [
        halt(at + 1000, A),
        wake(at + 2000, A),
        load(at + 2100, B, 0x10),
        halt(at + 3000, B),
    ]
    found = facts(*records)
    assert [found[key]["kernel threads"] for key in (A, B, C)] == ["1"] * 3
    assert [found[key]["own stacks"] for key in (A, B, C)] == ["1"] * 3
