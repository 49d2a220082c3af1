/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the assembly of this experiment has: the operations that are counted, the run around each
 * of them, and the handlers of the events that come in the middle.
 */
#pragma once

#include <stdint.h>

/* PMC0 to PMC3: instructions and branches of CPL 0, then of CPL 3. */
enum counted_counter {
    KERNEL_INSTRUCTIONS,
    KERNEL_BRANCHES,
    USER_INSTRUCTIONS,
    USER_BRANCHES,
    COUNTED_COUNTERS
};

/* An operation begins with these. counted.asm has their order. */
struct counted_registers {
    uint64_t rax, rcx, rdx, rsi, rdi;
};

struct counted_run {
    void (*operation)(void);
    struct counted_registers registers;
    uint64_t region;
    uint64_t before[COUNTED_COUNTERS], after[COUNTED_COUNTERS];
};

/* RDPMC of all four, the region's begin, the operation, the region's end, RDPMC of all four. */
void counted_run(struct counted_run *run);

/* Operations: the instruction, and RET. With `sti`, interrupts are on around it. */
void counted_empty(void), counted_cpuid(void), counted_rdmsr(void), counted_wrmsr(void);
void counted_rdpmc(void), counted_in(void), counted_out(void), counted_outs(void);
void counted_ins(void), counted_read(void), counted_xsetbv(void), counted_invd(void);
void counted_wbinvd(void), counted_vmcall(void), counted_nop(void), counted_cr3(void);
void counted_loop(void), counted_halt(void), counted_open(void), counted_string(void);
void counted_step(void), counted_step_cpuid(void), counted_icr(void);
void counted_stos(void), counted_icebp(void), counted_int3(void), counted_jump(void);
void counted_stop_start(void);
void counted_user_empty(void), counted_user_call(void), counted_user_cpuid(void);
extern const char counted_string_here[];

/* Handlers: they count, and go on. That of the page fault goes on behind the read. */
extern const char counted_interrupt[], counted_fault[];
extern volatile uint64_t counted_events, counted_from, counted_left; /* RIP and RCX of the last */

/* The page with the code of user mode, and SYSCALL's target. */
extern const char counted_user_page[], counted_entry[];
