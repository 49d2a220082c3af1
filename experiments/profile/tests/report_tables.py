# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of its tests; and
# the raw data of its picture.
import json
import os

from added import Measured
from cells import NONE, Cell, Table, number
from machine import path
import sampling

SKID = f"sweep/{sampling.SKIDS}"
WAYS = (
    # label, entry, the boot's ways, way, skid
    *((f"{entry}, NMI{', skid' if skid != '0' else ''}", entry, ("nmi",), "nmi", skid)
      for entry in ("native", *sampling.POLICIES) for skid in ("0", SKID)),
    *((f"{entry}, NMI", entry, ("nmi",), "nmi", "0") for entry in sampling.KVMS),
    *((f"native, {label}", "native", sampling.NATIVE_WAYS, way, "0") for label, way in (
        ("PEBS", "pebs"), ("LBR, last target", "lbr-target"), ("LBR, all blocks", "lbr-blocks"), ("Intel PT", "pt"))),
)
HEADS = ["samples", "by function", "by random samples", "by instruction", "in another function", "skid, median",
         "largest", "to the handler, median", "largest", "merged", "lost"]


def rows_of(lab):
    rows = []
    for label, entry, ways, way, skid in WAYS:
        found = sampling.answer(sampling.boot(lab, entry, ways, skid=skid), way)
        rows.append((label, way, found))
    return rows


def kept(rows):
    """What the picture is drawn of."""
    largest = max(found.samples for _, _, found in rows)
    return {"environment": "emulator", "period": sampling.PERIOD, "iter": sampling.LOADS["listing2"][1],
            "chance": [[largest / step, round(rows[0][2].chance * (rows[0][2].samples * step / largest) ** 0.5, 6)]
                       for step in (1, 4, 16, 64)],
            "rows": [{"label": label, "samples": found.samples, "by_function": round(found.by_function, 6),
                      "by_instruction": round(found.by_instruction, 6),
                      "curve": [[count, round(apart, 6)] for count, apart in found.curve]} for label, _, found in rows]}


def of_answer(lab, _machine):
    table = Table("answer-profile", "How true is a profile?", "total variation", HEADS, [("emulator", len(HEADS))],
                  reading=["Listing 2. Distances from the emulator's own count of each instruction of the same run."])
    rows = rows_of(lab)
    for label, way, found in rows:
        skids, ways = found.ways.skids, found.ways
        values = [sampling.middle(skids), max(skids), sampling.middle(ways.distances), max(ways.distances),
                  ways.merged, ways.lost] if way == "nmi" else []
        of_nmis = [Cell(f"{found.elsewhere:.4f}"), *(Cell(number(value)) for value in values)] \
            if values else [Cell(NONE)] * 7
        table.add(label, [Cell(number(found.samples)), Cell(f"{found.by_function:.4f}"), Cell(f"{found.chance:.4f}"),
                          Cell(f"{found.by_instruction:.4f}"), *of_nmis])
    if os.environ.get("DRAW"):
        with open(path("results", "answers", "profile.json"), "w", encoding="utf-8") as out:
            json.dump(kept(rows), out, indent=1)
            out.write("\n")
    return table


MEASURED = (Measured("answer-profile", "How true is a profile?", "make bench ONLY=answer-profile", of_answer,
                     quick=False),)
