# SPDX-License-Identifier: BSD-2-Clause
# inference.py: how right each host is about who ran, by what it sees (sights.py), against the
# guest's own scheduler; what that costs; and which hosts no other one beats in both. Pure.

from experiments.flow.analysis import truth
from experiments.flow.analysis.exit_reasons import NAMES
from experiments.flow.analysis.states import timeline
from experiments.inference.analysis import sights

PAPER, BACKWARDS, BY_LOADS = "the paper's", "backwards", "by loads"


def whole(source):
    return source


def lines(seen, subset, key, pti, harm=whole):
    """Gives {reading: Timeline}: with loads they say who ran; else the time between two sights is
    the earlier one's by the paper's rules, and the later one's backwards. `harm`: what is done to
    the Source, for tests.
    """
    source = harm(sights.source(seen, subset, key))
    names = {
        "pti": pti,
        "tasks": [],
    }  # a fact of the guest's kernel, which not every host could see
    if subset.loads != sights.NO_LOADS:
        return {BY_LOADS: timeline(source, names)}
    return {PAPER: timeline(source, names), BACKWARDS: timeline(source, names, by_next=True)}


def wrong_of_all(score):
    """The part of the time of processes and of the idle thread that is not given to the right one
    of them."""
    idle, _, right = score.states["idle"]
    return 1 - (score.user_right + right) / (score.user_time + idle)


def row(reading, score, by_events, cost, subset):
    """Gives what is kept of one host with one reading, as JSON can say it. `score` is by the loads
    of CR3 (truth.py, at_loads()), `by_events` by the scheduler's events, which come before them."""
    return {
        "exits": subset.exits,
        "loads": subset.loads,
        "hz": subset.hz,
        "reading": reading,
        "switches": score.switches,
        "found": score.found,
        "invented": len(score.invented),
        "wrong_process": round(score.wrong_share(), 6),
        "wrong": round(wrong_of_all(score), 6),
        "wrong_by_events": round(wrong_of_all(by_events), 6),
        "idle_off": round(score.idle_error(), 6),
        "preempted_precision": rounded(score.precision("preempted")),
        "preempted_recall": rounded(score.recall("preempted")),
        "taken": {NAMES[reason]: count for reason, count in cost.taken.items()},
        "made": {NAMES[reason]: count for reason, count in cost.made.items()},
        "pip_bytes": cost.bytes,
    }


def rounded(share):
    return None if share is None else round(share, 6)


def rows(seen, truths, processes, key, pti, subsets, harm=whole):
    """Takes a Run, its Truths by the loads and by the scheduler's events, {key: process}, and how
    CR3 is read; gives the rows of these Subsets."""
    return [
        row(
            reading,
            *(truth.score(line, one, processes=processes) for one in truths),
            sights.cost(seen, subset, truths[0].start, truths[0].end),
            subset,
        )
        for subset in subsets
        for reading, line in lines(seen, subset, key, pti, harm).items()
    ]


def prices(ledger):
    """Takes a boot's ledger; gives {reason: root instructions of one exit, mean, least and most,
    and of how many}."""
    return {
        NAMES[int(number)]: {
            "mean": round(found["sum"] / found["samples"], 1),
            "least": found["min"],
            "most": found["max"],
            "exits": found["samples"],
        }
        for number, entry in sorted(ledger["exits"].items(), key=lambda item: int(item[0]))
        for found in [entry["root_instructions"]]
        if found["samples"]
    }


def exits_of(one, anyway):
    """Exits for each switch; `anyway`: with those that the run took anyway."""
    counts = [one["made"], one["taken"]] if anyway else [one["made"]]
    return sum(sum(found.values()) for found in counts) / one["switches"]


def instructions_of(one, price, anyway):
    """Root instructions for each switch, by the prices of a host; None: one of its exits has no
    price there."""
    counts = {**(one["taken"] if anyway else {})}
    for reason, count in one["made"].items():
        counts[reason] = counts.get(reason, 0) + count
    if any(reason not in price for reason in counts):
        return None
    return sum(count * price[reason]["mean"] for reason, count in counts.items()) / one["switches"]


def better(found):
    """Takes rows; gives one of each host, that reading which is wrong for less of the time."""
    best = {}
    for one in found:
        which = one["exits"], one["loads"], one["hz"]
        if which not in best or one["wrong"] < best[which]["wrong"]:
            best[which] = one
    return list(best.values())


def front(found, cost, harm):
    """Takes rows, and the functions that give a row's cost and how wrong it is; gives those that no
    other one beats: for no more cost less wrong, or for less cost as right. By cost. A row without
    a cost (None) has no part.
    """
    kept, least = [], None
    for one in sorted(
        (one for one in found if cost(one) is not None), key=lambda one: (cost(one), harm(one))
    ):
        if least is None or harm(one) < least:
            kept.append(one)
            least = harm(one)
    return kept


def name(one):
    """Says in a few words what a row's host sees."""
    parts = [{"none": "", "KVM's": "KVM's exits"}.get(one["exits"], one["exits"])]
    parts.append(
        {
            sights.NO_LOADS: "",
            sights.ALL_LOADS: "CR3 loads exit",
            sights.TARGETS: "CR3 loads exit but targets",
            sights.PIP: "PT",
        }[one["loads"]]
    )
    parts.append(f"timer {one['hz']:,} Hz" if one["hz"] else "")
    return " + ".join(part for part in parts if part)
