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
           "With trace=: a device's first I/O port. PMUvisor then traps and records accesses to "  \
           "the device's ports. After a string instruction (INS, OUTS), it no longer traps that "  \
           "port.")                                                                                \
    OPTION(trace_ports, NUMBER, port_options.count, PORTS_DEFAULT, "how many ports, from 0 to 64", \
           VALUES(NAME(NULL, PORTS_MAX)), "The number of ports, from trace_port= on.")             \
    OPTION(trace_dump, NUMBER, dump_records, 0, "records from 0 to 65536",                         \
           VALUES(NAME(NULL, DUMP_MAX)),                                                           \
           "With trace=: when the guest powers off, PMUvisor prints this number of the last "      \
           "records of each ring with the log. Another machine can read them from the serial "     \
           "line, where 1000 records take 7 seconds.")
