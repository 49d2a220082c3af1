/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options of the flow trace. The rows have the format of boot/option_table.h.
 */
#pragma once

#define PORTS_NONE 0
#define PORTS_DEFAULT 8
#define PORTS_MAX 64
#define DUMP_MAX 65536

#define EXPERIMENT_OPTIONS(OPTION)                                                                 \
    OPTION(trace, CHOICE, ring_options.exits, TRACE_OFF, "off, exits or flow",                     \
           VALUES(NAME("off", TRACE_OFF), NAME("exits", TRACE_EXITS), NAME("flow", TRACE_FLOW)),   \
           "Which exits PMUvisor records in rings that the guest can read. exits: the exits that " \
           "happen anyway. flow: HLT, loads of CR3 and external interrupts also exit, and "        \
           "MONITOR and MWAIT are hidden. off costs nothing.")                                     \
    OPTION(trace_port, PORT, port_options.first, PORTS_NONE, "none or an I/O port such as 0x1f0",  \
           VALUES(NAME("none", PORTS_NONE)),                                                       \
           "With trace=: the first I/O port of a device. Accesses to the device's ports then "     \
           "also exit, and PMUvisor records them. A string instruction opens its port to the "     \
           "guest again.")                                                                         \
    OPTION(trace_ports, NUMBER, port_options.count, PORTS_DEFAULT, "how many ports, from 0 to 64", \
           VALUES(NAME(NULL, PORTS_MAX)), "The number of ports, from trace_port= on.")             \
    OPTION(trace_dump, NUMBER, dump_records, 0, "records from 0 to 65536",                         \
           VALUES(NAME(NULL, DUMP_MAX)),                                                           \
           "With trace=: if the guest switches the machine off, PMUvisor prints this number of "   \
           "the last records of each ring with the log, by console=serial for another machine. "   \
           "1000 records take 7 seconds on the serial line.")
