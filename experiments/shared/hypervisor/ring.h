/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings: memory of the pool that the guest may read but not write, with one ring for each
 * processor. If no option asks for records, there is no ring.
 */
#pragma once

#include <string.h>

#include "trace_ring.h"
#include "vmx/cpu.h"

/* The values of the options. The values of both traces are here, because a processor has only one
 * ring and each trace must know of the other. */
struct ring_options {
    uint32_t exits;  /* TRACE_* of trace_ring.h */
    uint32_t memory; /* the most that the guest may ask for, as MEMTRACE_* (trace_ring.h) */
    uint32_t mib;    /* size of each processor's ring */
};
extern struct ring_options ring_options;

/* The size of `filler` in struct cpu_trace. */
#define FILLER_BYTES 1536

/* The recording state of one processor. */
struct cpu_trace {
    struct trace_record *record; /* the next record to write */
    struct trace_record *first;  /* start of the ring's records */
    struct trace_record *end;    /* end of the ring's records */
    struct trace_ring *ring;     /* NULL: nothing is recorded */
    /* The table of handlers without the trace's rows: the rows of the policy. */
    exit_handler untraced[EXIT_REASON_COUNT + 1];
    /* The handlers that the trace's rows replaced. */
    exit_handler under[EXIT_REASON_COUNT + 1];
    /* State of the code that fills the ring. It is next to the ring's state, which saves a load on
     * each exit. */
    uint8_t filler[FILLER_BYTES] __attribute__((aligned(64)));
    uint64_t ticked;     /* value of the TSC when flow's exits last ran a tick */
    uint64_t tick_ticks; /* TSC ticks from one tick to the next */
};
extern uint64_t ring_place;
static inline struct cpu_trace *trace_of(const struct cpu *cpu)
{
    uint64_t place; /* copy of ring_place, which never changes: the compiler may reuse it */
    __asm__("mov ring_place(%%rip), %0" : "=r"(place));
    return (struct cpu_trace *)((uintptr_t)cpu + place);
}

/* Restores the table of handlers without the trace's rows. */
static inline void trace_remove_rows(struct cpu *cpu)
{
    memcpy(cpu->handlers, trace_of(cpu)->untraced, sizeof(cpu->handlers));
}

bool ring_is_wanted(void);
/* Returns the number of rings, which depends on the number of processors that the firmware
 * lists. */
uint32_t ring_count(const struct boot_info *bi);
/* ring_readable() returns the bytes of all rings, or 0 if no option asks for a record.
 * ring_reserve() takes the memory for the rings. */
uint64_t ring_readable(const struct boot_info *bi);
void ring_reserve(struct range readable);
/* Sets up this processor's ring. Runs on the processor itself, after its VMCS is set up. Returns
 * false if no ring is left because the firmware did not list this processor. */
bool ring_setup(struct cpu *cpu);
uint64_t ring_mib(void); /* MiB of each ring */
