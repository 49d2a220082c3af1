/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The option of the flow trace. The rows are as those of boot/option_table.h.
 */
#pragma once

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(trace, CHOICE, ring_options.exits, TRACE_OFF, "off, exits or flow",                     \
           VALUES(NAME("off", TRACE_OFF), NAME("exits", TRACE_EXITS), NAME("flow", TRACE_FLOW)),   \
           "Which exits are recorded in rings that the guest can read. exits: those that there "   \
           "are. flow: HLT, loads of CR3 and external interrupts exit as well, and MONITOR and "   \
           "MWAIT are hidden. off costs nothing.")
