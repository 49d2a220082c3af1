# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import peer_table
import plan
from added import OnPage, Section


def parts(machine):
    if machine.exact:
        return [peer_table.peer_table(machine)]
    return [OnPage(plan.NO_PEERS[0].upper() + plan.NO_PEERS[1:] + ".")]


SECTIONS = (Section("peers-of", "The strongest peer", "costs-of", parts),)
