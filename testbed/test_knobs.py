# SPDX-License-Identifier: BSD-2-Clause
# test_knobs.py: the table of knobs (instrument/knobs.cc) and what else has their names.
import re

from testbed.machine import path
from testbed.servers import ACTS


def test_readme_has_every_knob():
    """The table of README.md has a row for each knob but those of experiments, and no other row."""
    with open(path("testbed", "README.md"), encoding="utf-8") as source:
        section = source.read().split("## Knobs")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    with open(path("testbed", "instrument", "knobs.cc"), encoding="utf-8") as source:
        table = set(re.findall(r'^    \{"(\w+)", ', source.read(), re.MULTILINE))
    assert table and table <= set(ACTS)
    assert named == table
