/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_port= and trace_ports=: accesses to the I/O ports of one device exit while the processor
 * traces, so that the trace also records these accesses. By default, no device's ports exit.
 */
#pragma once

#include "vmx/cpu.h"

struct port_options {
    uint32_t first; /* trace_port=: the first port */
    uint32_t count; /* trace_ports=: the number of ports */
};
extern struct port_options port_options;

/* Finds the device's ports that nothing else watches. Runs on the processor itself, once, before
 * trace_set_port_exiting(). */
void trace_ports_setup(struct cpu *cpu);
/* Sets or clears the traced ports' bits in this processor's I/O bitmaps. If `on`, also replaces the
 * row of I/O instructions. Call this function before trace_exits_rows(), so that the recording row
 * calls this row. */
void trace_set_port_exiting(struct cpu *cpu, bool on);
