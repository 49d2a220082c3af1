# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of its tests.
from added import Measured
from cells import Cell, Table

import inference_picture
import test_inference


def of_hosts(lab, _machine):
    answer = test_inference.answer(lab)
    table = Table("answer-inference", "What a host can tell of its guest, and for how much", "count",
                  list(inference_picture.HEADS[1:]), [("emulator; of two boots", len(inference_picture.HEADS) - 1)],
                  reading=["Who ran, against the guest's own scheduler. Exits and root instructions are for each "
                           "switch of processes. KVM's: what looking adds; PMUvisor's: all exits. What PT costs is in "
                           "bytes."])
    for name, rows in inference_picture.hosts(answer):
        table.add(name, [Cell(text) for text in inference_picture.cells(answer, rows)])
    return table


MEASURED = (
    Measured("answer-inference", "What a host can tell", "FULL=1 make e2e T=inference/all", of_hosts, quick=False),
)
