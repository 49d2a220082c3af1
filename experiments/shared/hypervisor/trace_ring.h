/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings of the flow trace and of the memory trace: one for each processor, in memory that the
 * guest can read but not write. Guest programs and the tools share this file, so it uses plain
 * types only.
 *
 * A ring is one page with struct trace_ring, followed by the records. Record number n (from 0) is
 * at index n % capacity. `written` is the number of complete records. The record whose number is
 * `written` may be half written at any time. Nothing stops the writer. A reader that is behind by
 * more than capacity - 1 records has lost the excess records, and can tell that it has lost them.
 */
#pragma once

#include <stdint.h>

#define TRACE_RING_MAGIC 0x6563617274554d50u /* "PMUtrace" */
#define TRACE_RING_VERSION 1
#define TRACE_RING_HEADER_BYTES 4096UL

/* The trace levels, which select the exits to record. HYPERCALL_TRACE takes these numbers. */
#define TRACE_OFF 0
#define TRACE_EXITS 1  /* the exits that occur anyway */
#define TRACE_FLOW 2   /* also HLT, loads of CR3 and external interrupts */
#define TRACE_MEMORY 3 /* only memory accesses: HYPERCALL_MEMTRACE turns this level on */

/* ---- the hypercalls, in the format of hypercall.h ---- */

/* RBX = TRACE_*, or TRACE_ASK -> RAX = the previous level of this processor; RBX = physical address
 * of its ring, RCX = the ring's bytes. Only with trace=exits and trace=flow */
#define HYPERCALL_TRACE 19
#define TRACE_ASK (~0UL)
/* RBX = MEMTRACE_*, or TRACE_ASK; RCX = first address, RDX = bytes, widened to whole pages (0: all
 * memory); RSI = 0 if the address is guest-physical, or the CR3 under which it is guest-linear
 * (TRACE_THIS_CR3: the caller's CR3) -> RAX = the previous mode of this processor; RBX = physical
 * address of its ring, RCX = the ring's bytes. Only with memtrace=. HYPERCALL_E_STATE: another
 * processor traces another range or mode, or BTS, PEBS or Intel PT is on */
#define HYPERCALL_MEMTRACE 20
#define TRACE_THIS_CR3 (~0UL)

struct trace_ring {
    uint64_t magic;        /* TRACE_RING_MAGIC */
    uint32_t version;      /* TRACE_RING_VERSION */
    uint32_t record_bytes; /* size of struct trace_record */
    uint64_t capacity;     /* records */
    uint64_t written; /* records since the start; the processor counts a record after writing it */
    uint32_t apic_id; /* APIC ID of the processor that writes the ring */
    uint32_t level;   /* current TRACE_* */
    uint64_t tsc_khz; /* 0: unknown */
    uint32_t memory;  /* current MEMTRACE_* */
    uint32_t counter; /* TRACE_COUNTER_*: where `retired` in memory records comes from */
    uint64_t unread;  /* number of pages whose reads are not seen, because they hold page tables */
};

struct trace_record {
    uint64_t tsc;        /* read after the exit, the mitigations= work and the NMI bookkeeping */
    uint64_t rip;        /* guest-linear address at the exit */
    uint64_t cr3 : 48;   /* value at the exit; for a load of CR3, the new value without bit 63 */
    uint64_t reason : 8; /* basic exit reason */
    uint64_t flags : 8;  /* bits 4:0 of the guest's interruptibility state; TRACE_ENDS */
    uint32_t detail;     /* depends on the reason, see below */
    uint32_t root_time;  /* TSC ticks from `tsc` to the end of the exit's handler, modulo 2^32 */
};

/* detail, by reason:
 *   CPUID               the leaf (EAX)
 *   RDMSR, WRMSR        the MSR (ECX)
 *   VMCALL              the number (EAX)
 *   I/O instruction     bits 31:0 of the exit qualification: the port is in 31:16
 *   EPT violation       the guest-physical page: address >> 12, modulo 2^32
 *   external interrupt  bits 7:0: the vector that the next entry delivers; 0: the guest cannot
 *                       take an interrupt yet, and the record of the interrupt window has the
 *                       vector; bits 31:8: the stack
 *   interrupt window    as for an external interrupt
 *   HLT, CR access      bits 31:8: the stack
 *   others              0
 * The stack is RSP >> TRACE_STACK_SHIFT, modulo 2^24. */
#define TRACE_ENDS 0x80u /* in flags: tracing is off after this record */
#define TRACE_VECTOR 0xffu
#define TRACE_STACK_SHIFT 12

/* ---- memory accesses: a record takes three frames. Each frame has the size of a trace_record, and
 * no record crosses the ring's end. Byte 22 tells which frame it is: TRACE_REASON_MEMORY for the
 * first frame, TRACE_REASON_MORE for the others. Byte 23 of the others is the frame's number.
 * ---- */

#define MEMTRACE_OFF 0
#define MEMTRACE_WRITES 1
#define MEMTRACE_READS 2
#define MEMTRACE_ALL 3
#define MEMTRACE_DEVICES 4 /* accesses to anything that is not memory, reads and writes */
#define MEMTRACE_PAGES 5   /* written pages, each recorded once */

#define TRACE_REASON_MEMORY 0xf0u
#define TRACE_REASON_MORE 0xffu
#define TRACE_MEMORY_FRAMES 3

#define TRACE_COUNTER_NONE 0
/* IA32_FIXED_CTR0, which the guest did not use. The counts start from 0 and have no gap. */
#define TRACE_COUNTER_LENT 1
#define TRACE_COUNTER_GUEST 2 /* bits 43:0 of IA32_FIXED_CTR0 as the guest has set it */

/* flags */
/* Together with TRACE_WRITE: the processor reported a read and a write, or the instruction is XCHG
 * or similar. */
#define TRACE_READ 1u
#define TRACE_WRITE 2u
/* With TRACE_WRITE: a page walk set an accessed or dirty bit. With TRACE_READ: a page walk read
 * this page, so reads of the page are not seen from now on. */
#define TRACE_WALK 4u
#define TRACE_EVENT 8u  /* the frame that the delivery of an event pushed */
#define TRACE_CHUNK 16u /* iterations of a REP that root mode executed at once */
/* With TRACE_EVENT: a frame pushed outside IA-32e mode, whose size is unknown. Without TRACE_EVENT:
 * a page walk, or a store for PEBS or Intel PT, caused the violation, so the access may not be the
 * instruction's own. */
#define TRACE_INEXACT 32u
#define TRACE_XSTATE 64u  /* an instruction of the XSAVE family, or FXSAVE, FXRSTOR */
#define TRACE_DEVICE 128u /* access to a device: there is no value */
/* Together with TRACE_WRITE: a page that was written at least once up to this time. The writer and
 * the linear address are unknown. */
#define TRACE_PAGE (TRACE_CHUNK | TRACE_INEXACT | TRACE_DEVICE)

struct trace_memory {
    uint64_t tsc;        /* at the violation; EVENT: after the delivery */
    uint64_t rip;        /* EVENT: RIP of the handler; the frame tells what was interrupted */
    uint64_t cr3 : 48;   /* CR3 at the time in `tsc` */
    uint64_t reason : 8; /* TRACE_REASON_MEMORY */
    uint64_t flags : 8;  /* TRACE_READ to TRACE_PAGE */
    uint32_t detail; /* EVENT: interruption information; CHUNK: bytes of an element; XSTATE: EAX */
    uint32_t bytes;  /* WALK, EVENT, CHUNK: size; 0: the instruction's operand tells the size */
    uint64_t gla;    /* linear address of the first byte; WALK: the address that was translated */
    uint64_t gpa;    /* guest-physical address of the first byte; WALK: address of the entry */
    uint64_t retired : 48; /* instructions retired before this one */
    uint64_t reason1 : 8;  /* TRACE_REASON_MORE */
    uint64_t index1 : 8;   /* 1 */
    uint64_t value0;       /* the 8 bytes at gpa after the access; 0 past the page's end */
    uint8_t code[15];      /* the code at rip */
    uint8_t code_bytes;    /* number of known bytes in `code` */
    /* XSTATE, from the lowest bit up: bits 23:0 of XSTATE_BV, bits 22:0 of XCOMP_BV, and bit 63 of
     * XCOMP_BV. */
    uint64_t xstate : 48;
    uint64_t reason2 : 8; /* TRACE_REASON_MORE */
    uint64_t index2 : 8;  /* 2 */
    uint64_t value1;      /* the 8 bytes that follow the bytes in value0 */
};
