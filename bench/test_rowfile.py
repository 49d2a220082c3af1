# SPDX-License-Identifier: BSD-2-Clause
# test_rowfile.py: one row, one line, and no value lost.
import json

import pytest

from bench import rowfile

ROWS = [
    {"item": name, "values": [{"n": 1}, {"n": 2}], "curve": [[1, 0.5], [2, 0.25]]} for name in "ab"
]
DATA = {
    "environment": "words",
    "rows": ROWS,
    "tables": {"first": {"head": ["x", "y"], "rows": [{"cells": [{"text": "1"}]}], "notes": []}},
    "nothing": {},
}
TEXT = """{
 "environment": "words",
 "rows": [
  {"item": "a", "values": [{"n": 1}, {"n": 2}], "curve": [[1, 0.5], [2, 0.25]]},
  {"item": "b", "values": [{"n": 1}, {"n": 2}], "curve": [[1, 0.5], [2, 0.25]]}
 ],
 "tables": {
  "first": {
   "head": ["x", "y"],
   "rows": [
    {"cells": [{"text": "1"}]}
   ],
   "notes": []
  }
 },
 "nothing": {}
}
"""


def test_one_row_is_one_line():
    assert rowfile.text_of(DATA) == TEXT and json.loads(TEXT) == DATA


def test_types_that_json_lacks():
    made = json.loads(rowfile.text_of({"shares": {25: {"a": {"b": (1, 2)}}}}))
    assert made == {"shares": {"25": {"a": {"b": [1, 2]}}}}


def test_a_file_is_never_half_written(tmp_path):
    file = tmp_path / "new" / "data.json"
    rowfile.write(DATA, str(file))
    assert file.read_text() == TEXT
    with pytest.raises(TypeError):
        rowfile.write({"rows": {1, 2}}, str(file))
    assert file.read_text() == TEXT and [one.name for one in file.parent.iterdir()] == ["data.json"]
