/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings of the flow trace and of the memory trace: one for each processor, in memory that the
 * guest can read and not write.
 * What is here is shared with guest programs and with the tools: plain types only.
 *
 * A ring is one page with struct trace_ring, and the records right after it. Record number n (from
 * 0) is at index n % capacity. `written` is the number of whole records; the one with that number
 * may be half written at any time. Nobody stops the writer: a reader that is more than capacity - 1
 * records behind has lost the difference, and can tell.
 */
#pragma once

#include <stdint.h>

#define TRACE_RING_MAGIC 0x6563617274554d50u /* "PMUtrace" */
#define TRACE_RING_VERSION 1
#define TRACE_RING_HEADER_BYTES 4096UL

/* What exits, and is recorded. HYPERCALL_TRACE takes these numbers. */
#define TRACE_OFF 0
#define TRACE_EXITS 1  /* what exits anyway */
#define TRACE_FLOW 2   /* HLT, loads of CR3 and external interrupts as well */
#define TRACE_MEMORY 3 /* memory accesses alone: HYPERCALL_MEMTRACE turns it */

/* ---- the hypercalls, as those of hypercall.h ---- */

/* RBX = TRACE_*, or TRACE_ASK -> RAX = what it was, of this processor; RBX = its ring's physical
 * address, RCX = its bytes. There with trace=exits and trace=flow alone */
#define HYPERCALL_TRACE 19
#define TRACE_ASK (~0UL)
/* RBX = MEMTRACE_*, or TRACE_ASK; RCX = first address, RDX = bytes, widened to whole pages (0: all
 * memory); RSI = 0: guest-physical; TRACE_THIS_CR3: guest-linear of the caller's CR3; else of that
 * CR3 -> RAX = what it was, of this processor; RBX = its ring's physical address, RCX = its bytes.
 * There with memtrace= alone. HYPERCALL_E_STATE: another processor traces another range */
#define HYPERCALL_MEMTRACE 20
#define TRACE_THIS_CR3 (~0UL)

struct trace_ring {
    uint64_t magic;
    uint32_t version;
    uint32_t record_bytes;
    uint64_t capacity; /* records */
    uint64_t written;  /* records since the start; the processor writes it after each record */
    uint32_t apic_id;
    uint32_t level;   /* TRACE_* now */
    uint64_t tsc_khz; /* 0: not known */
    uint32_t memory;  /* MEMTRACE_* now */
    uint32_t counter; /* TRACE_COUNTER_*: what counts retired instructions of memory records */
    uint64_t unread;  /* pages that hold page tables: reads of them are not seen */
};

struct trace_record {
    uint64_t tsc; /* after the exit, what mitigations= does there, and the bookkeeping of NMIs */
    uint64_t rip; /* guest-linear, at the exit */
    uint64_t cr3 : 48;   /* at the exit; of a load of CR3 the new value, without its bit 63 */
    uint64_t reason : 8; /* basic exit reason */
    uint64_t flags : 8;  /* bits 4:0 of the guest's interruptibility state; TRACE_ENDS */
    uint32_t detail;     /* by reason, see below */
    uint32_t root_time;  /* TSC ticks from `tsc` to the end of the exit's handler, modulo 2^32 */
};

/* detail:
 *   CPUID               the leaf (EAX)
 *   RDMSR, WRMSR        the MSR (ECX)
 *   VMCALL              the number (EAX)
 *   I/O instruction     bits 31:0 of the exit qualification: port in 31:16
 *   EPT violation       the guest-physical page: address >> 12, modulo 2^32
 *   external interrupt  bits 7:0 the vector that the guest gets with this entry; 0: it takes none
 * yet, and the interrupt window has it; the stack above interrupt window    the same HLT, CR access
 * the stack above others              0 The stack is in bits 31:8: RSP >> TRACE_STACK_SHIFT, modulo
 * 2^24. */
#define TRACE_ENDS 0x80u /* in flags: tracing is off after this record */
#define TRACE_VECTOR 0xffu
#define TRACE_STACK_SHIFT 12

/* ---- memory accesses: three frames of a record's size each, which no end of the ring divides. A
 * frame says by its byte 22 what it is: TRACE_REASON_MEMORY the first one, TRACE_REASON_MORE those
 * after it, with their number in byte 23. ---- */

#define MEMTRACE_OFF 0
#define MEMTRACE_WRITES 1
#define MEMTRACE_READS 2
#define MEMTRACE_ALL 3
#define MEMTRACE_DEVICES 4 /* accesses to what is no memory, reads and writes */
#define MEMTRACE_PAGES 5   /* pages that are written, each once */

#define TRACE_REASON_MEMORY 0xf0u
#define TRACE_REASON_MORE 0xffu
#define TRACE_MEMORY_FRAMES 3

#define TRACE_COUNTER_NONE 0
/* IA32_FIXED_CTR0, which the guest did not use: from 0, without a gap */
#define TRACE_COUNTER_LENT 1
#define TRACE_COUNTER_GUEST 2 /* the same, as the guest has set it: bits 43:0 */

/* flags */
#define TRACE_READ 1u /* with TRACE_WRITE: the processor said both, or it is XCHG's kind */
#define TRACE_WRITE 2u
/* An accessed or dirty bit, set by a page walk. Without TRACE_WRITE: from now on reads of this page
 * are not seen, because page walks read it. */
#define TRACE_WALK 4u
#define TRACE_EVENT 8u    /* the frame that the delivery of an event pushed */
#define TRACE_CHUNK 16u   /* iterations of a REP that root mode has done at once */
#define TRACE_INEXACT 32u /* a frame pushed outside of 64-bit mode: its size is not known */
#define TRACE_XSTATE 64u  /* an instruction of the XSAVE family, or FXSAVE, FXRSTOR */
#define TRACE_DEVICE 128u /* of a device: there is no value */
/* With TRACE_WRITE: a page that was written, once or more, until this time. Who wrote, and at which
 * linear address, is not known. */
#define TRACE_PAGE (TRACE_CHUNK | TRACE_INEXACT | TRACE_DEVICE)

struct trace_memory {
    uint64_t tsc; /* at the violation; of EVENT after the delivery */
    uint64_t rip; /* of EVENT: the handler's; the frame has what was interrupted */
    uint64_t cr3 : 48;
    uint64_t reason : 8;
    uint64_t flags : 8;
    uint32_t detail; /* EVENT: interruption information; CHUNK: bytes of an element; XSTATE: EAX */
    uint32_t bytes;  /* of WALK, EVENT, CHUNK; 0: the instruction's operand says */
    uint64_t gla;    /* the first byte; of WALK the address that was translated */
    uint64_t gpa;
    uint64_t retired : 48; /* instructions, before this one */
    uint64_t reason1 : 8;
    uint64_t index1 : 8;
    uint64_t value0;    /* what is at gpa after the access, 8 bytes; 0 past the page's end */
    uint8_t code[15];   /* at rip */
    uint8_t code_bytes; /* of them that are known */
    uint64_t
        xstate : 48; /* XSTATE: bits 23:0 of XSTATE_BV, 22:0 of XCOMP_BV above, and its bit 63 */
    uint64_t reason2 : 8;
    uint64_t index2 : 8;
    uint64_t value1; /* 8 bytes more */
};
