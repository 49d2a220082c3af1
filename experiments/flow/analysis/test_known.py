# SPDX-License-Identifier: BSD-2-Clause
# test_known.py: what is known of processes without a name, on records by hand.
from experiments.flow.analysis import known
from experiments.flow.analysis.exit_reasons import CR_ACCESS
from experiments.flow.analysis.hand_made import A_STACK, A, B, C, flow, record, trace
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


def facts(records, names=None):
    line = flow(records, names=names)
    return {
        key: dict(zip(known.HEADS, texts))
        for key, texts in known.of_nameless(line, lambda cr3: cr3 & TABLE_MASK).items()
    }


SHORT = "0 load A idle; 500 tick A; 600 load B A; 900 tick B"


def test_named_is_left_out():
    assert list(facts(SHORT, NAMES)) == [B] and set(facts("0 load A idle; 500 tick A")) == {A}


def test_where_it_comes_from():
    """Who ran before it on the processor where it first was, idle time, or nothing that was
    seen."""
    found = facts(
        "0 load A idle; 500 tick A; 600 load B A; 1000 halt B; 2000 wake B; 2100 load C idle; "
        "2500 tick C"
    )
    assert [found[key]["after"] for key in (A, B, C)] == ["nothing seen", f"cr3 {A:#x}", "idle"]
    assert [found[key]["first seen, ms"] for key in (A, B)] == ["0.000", "0.001"]
    assert found[B]["processors"] == "0"
    assert facts(SHORT, NAMES)[B]["after"] == "calm [7]"


def test_user_space():
    """Its exits there with the first and the last RIP; a load of CR3 is not of whom it loads."""
    records = trace("0 load A idle; 500 tick A; 600 tick A; 900 kernel B B")
    records[2] = records[2]._replace(rip=FAR_RIP)
    records.insert(3, record(700, CR_ACCESS, B, 0x401000, A_STACK))
    found = facts(records)
    assert (found[A]["user exits"], found[A]["user RIPs"]) == ("2", "0x401000 to 0x402345")
    assert (found[B]["user exits"], found[B]["user RIPs"]) == ("0", "none")


def test_whom_it_fits():
    """All that its exits fit, but who has a table of his own; the list has an end."""
    records = SHORT + "; 1000 load C B; 1400 kernel C C"
    found = facts(records, names=NAMES)
    assert (found[B]["may be"], found[C]["may be"]) == ("one [8], other [9]", "not known")
    more = [
        {"pid": pid, "tid": pid, "comm": "w", "pgd": None, "stack": None, "maps": MAPS}
        for pid in range(10, 20)
    ]
    found = facts(records, names={**NAMES, "tasks": NAMES["tasks"] + more})
    assert found[B]["may be"].endswith("w [13] and 6 more")
    assert facts(records)[B]["may be"] == "not known"


def test_kernel_threads():
    """A thread that comes with the tables of three has none of its own; the idle one is none of
    them."""
    records = "0 load A idle"
    for at, (table, after) in enumerate(zip("ABCABC", "BCABCA"), 1):
        records += (
            f"; {at}000 kernel {table} worker; {at}100 kernel {table} {table}; "
            f"{at}200 load {after} {table}"
        )
    found = facts(records + "; 7000 halt A; 8000 wake A; 8100 load B idle; 9000 halt B")
    assert [found[key]["kernel threads"] for key in (A, B, C)] == ["1"] * 3
    assert [found[key]["own stacks"] for key in (A, B, C)] == ["1"] * 3
