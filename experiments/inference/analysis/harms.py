# SPDX-License-Identifier: BSD-2-Clause
# harms.py: what may be wrong with a method, done to the Source of a run: each has to make its score
# worse, of a run made by hand and of a boot.
from experiments.flow.analysis.exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT


def shifted(source):
    """Each record has the CR3 of the one before it."""
    records = source.processors[0]
    source.processors[0] = records[:1] + [
        two._replace(cr3=one.cr3) for one, two in zip(records, records[1:])
    ]
    return source


def swapped(source):
    """HLT is an interrupt, and an interrupt is HLT."""
    other = {HLT: EXTERNAL_INTERRUPT, EXTERNAL_INTERRUPT: HLT}
    source.processors[0] = [
        record._replace(reason=other.get(record.reason, record.reason))
        for record in source.processors[0]
    ]
    return source


def dropped(source):
    """One load is missing, in the middle."""
    loads = [record for record in source.processors[0] if record.reason == CR_ACCESS]
    source.processors[0].remove(loads[len(loads) // 2])
    return source
