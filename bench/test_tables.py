# SPDX-License-Identifier: BSD-2-Clause
# test_tables.py: tables.toml: what is not understood is refused, all that is there is on the page,
# and one more row is one more row of the page.
import copy

import pytest

from bench import tables
from bench.measurements import ALL
from bench.test_report import emulator

ROW = {"label": "a row", "of": "exit cpuid exits"}


def rows_of(row, machine, **more):
    """The table of this row alone: msr+nmi's cells by their labels."""
    entry = {"title": "Made up", "unit": "count", "rows": [row], "folder": "bench", **more}
    kept = {**tables.ENTRIES, "table": {"made-up": entry}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ENTRIES", kept)
        table = tables.make(machine, "made-up")
        return {row.label: row.cells[table.heads.index("msr+nmi")].text for row in table.rows}


@pytest.mark.parametrize(
    "text, words",
    [
        ('[table.x]\ntitel = "X"\n', "titel"),
        ('[table.x]\nrows = [{labl = "X", of = "exit cpuid exits"}]\n', "labl"),
        ('[table.x]\nrows = [{exact = {labl = "X"}}]\n', "labl"),
        ('[table.x]\nrows = [{each = "t41", rows = [{off = "exit cpuid exits"}]}]\n', "off"),
        ('[[table.x.more_rows]]\nlabl = "X"\n', "labl"),
        ('[section.x]\npart = ["t41"]\n', "part"),
        ('[sections.x]\ntitle = "X"\n', "sections"),
        ('[table.t41]\ntitle = "X"\n', "t41"),
        ('[[sentence."4.1, MSR accesses"]]\nsay = "X"\n', "4.1"),
        ("[table.x\n", "line 1"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, text, words):
    file = tmp_path / "tables.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        tables.add(copy.deepcopy(tables.ENTRIES), str(file))
    assert str(file) in str(caught.value)


def test_more_rows_come_below_the_others():
    found = rows_of(
        {"label": "first", "of": "exit cpuid exits"}, emulator().machine(), more_rows=[ROW]
    )
    assert list(found) == ["first", "a row"]


def test_all_tables_are_on_the_page():
    shown = str([what.get("parts") for what in tables.ENTRIES["section"].values()])
    bases = {what.get("like") for what in tables.ENTRIES["table"].values()}
    assert not [
        key
        for key, what in tables.ENTRIES["table"].items()
        if what["folder"] == "bench" and f"'{key}'" not in shown and key not in bases
    ]


def test_items_are_in_tables():
    """Beside tables, items are marked for the estimate, the ablation and other configurations."""
    known = {*tables.ENTRIES["table"], "estimate", "ablation", "config"}
    for found in ALL.experiments.values():
        for item in found.items or ():
            assert set(item.tables) <= known, item


def test_a_row_has_its_figures_and_what_stands_under_it():
    machine = emulator().machine()
    found = rows_of({**ROW, "under": ["VMCS = vmread vmwrite"]}, machine)
    assert found == {"a row": "1", "VMCS": "6"}
    found = rows_of({"each": "t43", "of": "{experiment} {item} exits"}, machine)
    assert list(found) == [item.label for item in ALL.items_in("t43")]
    assert rows_of({**ROW, "of": "exit cpuid nothing", "known": True}, machine) == {}
    each = {"each": [["x", "X"], ["y", "Y"]], "but": "x", "of": "exit cpuid exits"}
    assert list(rows_of(each, machine)) == ["Y"]


def test_each_function_is_there():
    def calls(value):
        if isinstance(value, (dict, list)):
            for one in value.values() if isinstance(value, dict) else value:
                yield from calls(one)
        elif isinstance(value, str) and value.startswith("="):
            yield value

    found = [text for kind in ("table", "lead", "sentence") for text in calls(tables.ENTRIES[kind])]
    assert len(found) > 20 and all(callable(tables.called(text)[0]) for text in found)
    with pytest.raises(ValueError, match="=nothing"):
        tables.called("=nothing a1")


def test_exact_and_timed():
    machine = emulator().machine()
    assert list(rows_of({"exact": ROW}, machine)) == ["a row"]
    assert not tables.picked([{"timed": ROW}], machine.exact)
    assert tables.picked({"text": {"exact": "a", "timed": "b"}}, False) == {"text": "b"}
