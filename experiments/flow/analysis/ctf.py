# SPDX-License-Identifier: BSD-2-Clause
"""Writes a flow trace as CTF 1.8, which babeltrace2 and Trace Compass read.

TRACE is a file of the program flowtrace, or an image of memory with rings. FOLDER is made, and must
not be there before. There is one stream for each processor. Events have LTTng's names, see
trace.md. Needs Debian's python3-bt2 (babeltrace2).
"""

import sys

from experiments.flow.analysis import command_line, lttng_events
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load
from experiments.shared.analysis.ctf_writer import CannotWrite, library, write_packets

# Fields: (name, bits), negative for signed ones, None for text; order and sizes are LTTng's.
EVENTS = {
    "kvm_x86_exit": (
        ("exit_reason", 32),
        ("guest_rip", 64),
        ("cr3", 64),
        ("detail", 32),
        ("flags", 8),
    ),
    "kvm_x86_entry": (("vcpu_id", 32), ("cr3", 64), ("root_time", 32)),
    "irq_handler_entry": (("irq", -32), ("name", None)),
    "sched_switch": (
        ("prev_comm", None),
        ("prev_tid", -32),
        ("prev_prio", -32),
        ("prev_state", -64),
        ("next_comm", None),
        ("next_tid", -32),
        ("next_prio", -32),
    ),
}


def write(source, folder, names=None, line=None):
    """Writes CTF. Takes what states.timeline() takes, the folder to make, and the Timeline where it
    is there already. Raises CannotWrite, trace_source.BadTrace, or ValueError for the names."""
    library()
    source = load(source)
    line = line or timeline(source, names)
    write_packets(
        {
            number: lttng_events.packets(source, line, number)
            for number in sorted(source.processors)
        },
        folder,
        source.tsc_khz,
        EVENTS,
    )


def main():
    options = command_line.parser(__doc__, "FOLDER").parse_args()
    try:
        write(options.trace, options.out, options.names)
    except (CannotWrite, BadTrace, ValueError, OSError) as error:
        sys.exit(f"ctf.py: {error}")


if __name__ == "__main__":
    main()
