# SPDX-License-Identifier: BSD-2-Clause
# test_nested_costs.py: the table of an outer KVM's costs: from consoles and ledgers, per operation,
# with its bases; what no boot has left is no column, what a boot did not measure is no number.
import json

import pytest

from bench import nested_costs
from bench.test_convert import BASE, ITEM, LEDGER, region

A1K = (
    "bench: experiment=a1k item={} region={} ops=1 metric=time unit=tsc n=1 min=9 median=9 "
    "p95=9\n"
)
PMI = [("Exception or NMI", 1000, 9_000_000, 0)]


def leave(folder, column, console, ledger):
    """What a boot leaves."""
    name = folder / f"{nested_costs.PREFIX}{column}"
    name.with_suffix(".console").write_text(console.replace("\n", "\r\n"), encoding="ascii")
    name.with_suffix(".json").write_text(json.dumps(ledger), encoding="ascii")


def rows_of(folder):
    table = nested_costs.table(str(folder))
    return table, {row.label: [cell.text for cell in row.cells] for row in table.rows}


def test_per_operation(tmp_path):
    leave(tmp_path, "msr+nmi", BASE + ITEM, LEDGER)
    table, rows = rows_of(tmp_path)
    assert [text for text, _ in table.groups] == ["msr+nmi"]
    assert (rows["CPUID"], rows["RDPMC"]) == (["113", "1", "1"], ["-", "-", "-"])


def test_pmi(tmp_path):
    last = region(root=9_000_100, nonroot=50, exits=PMI)
    ledger = {"regions": {"7": region(root=100, nonroot=50), "8": last}}
    leave(tmp_path, "native", A1K.format("m200000", 7) + A1K.format("m100", 8), ledger)
    assert rows_of(tmp_path)[1]["one PMI, the test kernel's"] == ["9,000", "1", "0"]


def test_nothing(tmp_path):
    assert rows_of(tmp_path)[0].heads == []


def test_bad_line(tmp_path):
    leave(tmp_path, "msr", "bench: experiment=exit item=cpuid colour=blue\n", LEDGER)
    with pytest.raises(ValueError):
        rows_of(tmp_path)
