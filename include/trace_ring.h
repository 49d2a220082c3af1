/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trace of exits: one ring for each processor, in memory that the guest can read and not write.
 * What is here is shared with guest programs and with the tools: plain types only.
 *
 * A ring is one page with struct trace_ring, and the records right behind it. Record number n (from
 * 0) is at index n % capacity. `written` is the number of whole records; the one with that number
 * may be half written at any time. Nobody stops the writer: a reader that is more than capacity - 1
 * records behind has lost the difference, and can tell.
 */
#pragma once

#include <stdint.h>

#define TRACE_RING_MAGIC 0x6563617274554d50u /* "PMUtrace" */
#define TRACE_RING_VERSION 1
#define TRACE_RING_HEADER_BYTES 4096UL

/* What exits, and is recorded. HYPERCALL_TRACE (hypercall.h) takes these numbers. */
#define TRACE_OFF 0
#define TRACE_EXITS 1 /* what exits anyway */
#define TRACE_FLOW 2  /* HLT, loads of CR3 and external interrupts as well */

struct trace_ring {
    uint64_t magic;
    uint32_t version;
    uint32_t record_bytes;
    uint64_t capacity; /* records */
    uint64_t written;  /* records since the start; the processor writes it after each record */
    uint32_t apic_id;
    uint32_t level;    /* TRACE_* now */
    uint64_t tsc_khz;  /* 0: not known */
};

struct trace_record {
    uint64_t tsc; /* after the exit: behind what mitigations= does there, before all else */
    uint64_t rip; /* guest-linear, at the exit */
    uint64_t cr3 : 48;   /* at the exit; of a load of CR3 the new value, without its bit 63 */
    uint64_t reason : 8; /* basic exit reason */
    uint64_t flags : 8;  /* bits 4:0 of the guest's interruptibility state; TRACE_ENDS */
    uint32_t detail;     /* by reason, see below */
    uint32_t root_time;  /* TSC ticks from `tsc` to the entry's mitigations, modulo 2^32 */
};

/* detail:
 *   CPUID               the leaf (EAX)
 *   RDMSR, WRMSR        the MSR (ECX)
 *   VMCALL              the number (EAX)
 *   I/O instruction     bits 31:0 of the exit qualification: port in 31:16
 *   EPT violation       the guest-physical page: address >> 12, modulo 2^32
 *   external interrupt  bits 7:0 the vector that the guest gets with this entry; 0: it takes none yet,
 *                       and the interrupt window has it; the stack above
 *   interrupt window    the same
 *   HLT, CR access      the stack above
 *   others              0
 * The stack is in bits 31:8: RSP >> TRACE_STACK_SHIFT, modulo 2^24. */
#define TRACE_ENDS 0x80u /* in flags: tracing is off behind this record */
#define TRACE_VECTOR 0xffu
#define TRACE_STACK_SHIFT 12
