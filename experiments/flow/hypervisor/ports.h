/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_port= and trace_ports=: the I/O ports of one device exit while the processor traces, so
 * that what the guest does there is recorded with all else. By default a device's ports take no
 * exit.
 */
#pragma once

#include "vmx/cpu.h"

struct port_options {
    uint32_t first; /* trace_port=: the first port */
    uint32_t count; /* trace_ports=: the number of ports */
};
extern struct port_options port_options;

/* On the processor itself, once, before the others: which of the ports nothing else watches. */
void trace_ports_setup(struct cpu *cpu);
/* Their bits of this processor's I/O bitmaps, and the row of the table below the trace's own. */
void trace_ports(struct cpu *cpu, bool on);
