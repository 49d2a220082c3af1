/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The hooks that Bochs compiles into its processor: what runs on every emulated instruction is
 * inline here, everything else is a call into the library. Bochs includes this file everywhere, so
 * a change of it rebuilds the whole emulator; a change of any other file here rebuilds the library
 * alone. Interface: instrument/instrumentation.txt and instrument/stubs of Bochs 3.0.
 */
#pragma once

class bxInstruction_c;

/* The most processors that one run may have. */
#define TB_MAX_CPUS 64

/* Where an instruction ran: bit 0 is user mode (CPL 3), bit 1 VMX root operation. */
enum tb_mode {
    TB_MODE_KERNEL = 0,
    TB_MODE_USER = 1,
    TB_MODE_ROOT_KERNEL = 2,
    TB_MODE_ROOT_USER = 3,
    TB_MODES = 4
};
#define TB_WORLD_ROOT 2u
/* A value of `world` that matches no mode, so that the next instruction looks again. */
#define TB_WORLD_UNKNOWN 8u

/* Bits of `watch`: which rarely needed hooks have a listener. */
#define TB_WATCH_BRANCH 1u
#define TB_WATCH_MEMORY 2u
#define TB_WATCH_EVENT 4u
#define TB_WATCH_LINES 8u
#define TB_WATCH_LOG 16u
#define TB_WATCH_TRACE 32u
/* The page of the local APIC's registers, as it comes out of reset. */
#define TB_APIC_PAGE 0xfee00u

/* A value of `rpl` that no CS has. */
#define TB_RPL_NONE 0xffu

/* The part of a processor's state that every instruction touches: a member of Bochs' processor
 * (testbed/patches/). */
struct tb_hot {
    Bit64u retired = 0;         /* instructions completed */
    Bit64u deadline = 0;        /* tb_on_deadline() runs once `retired` reaches it */
    unsigned rpl = TB_RPL_NONE; /* tb_on_mode() runs where CS.RPL is another */
    unsigned watch = 0;
    unsigned mode = 0;
    unsigned world = TB_WORLD_UNKNOWN;
    Bit64u counted = 0;               /* those of `retired` that `by_mode` has */
    Bit64u by_mode[TB_MODES] = {};    /* instructions completed, by the mode they started in */
    Bit64u iterations[TB_MODES] = {}; /* further iterations of REP-prefixed instructions */
};

void tb_init_env(void);
void tb_exit_env(void);
void tb_initialize(unsigned cpu);
void tb_reset(unsigned cpu, unsigned type);
void tb_on_mode(unsigned cpu);
void tb_on_deadline(unsigned cpu, bxInstruction_c *i);
void tb_on_split(unsigned cpu);
void tb_on_opcode(unsigned cpu, bxInstruction_c *i);
void tb_on_branch(unsigned cpu, unsigned what, Bit64u from, Bit64u to, unsigned taken,
                  unsigned length);
void tb_on_far_branch(unsigned cpu, unsigned what, Bit64u from, Bit64u to);
void tb_on_exception(unsigned cpu, unsigned vector);
void tb_on_interrupt(unsigned cpu, unsigned vector);
void tb_on_hwinterrupt(unsigned cpu, unsigned vector, Bit64u rip);
void tb_on_memory(unsigned cpu, Bit64u laddr, Bit64u paddr, unsigned len, unsigned rw);
void tb_on_apic_access(unsigned cpu);
void tb_on_clflush(bxInstruction_c *i, Bit64u paddr);
void tb_on_cache_control(unsigned cpu);
void tb_on_prefetch(unsigned cpu);
void tb_on_outp(Bit16u port, unsigned len, unsigned value);
void tb_on_wrmsr(unsigned cpu, unsigned index, Bit64u value);
bool tb_on_init_signal(unsigned cpu);
void tb_on_committed(unsigned cpu);
void tb_on_event_delivered(unsigned cpu);
void tb_on_walk_update(unsigned cpu, Bit64u laddr, Bit64u paddr);
void tb_on_string(unsigned cpu, Bit64u laddr, Bit64u paddr, unsigned len, unsigned rw);
bool tb_on_ptwrite(unsigned cpu, Bit64u value, unsigned bytes);
void tb_on_vmentry(unsigned cpu);
void tb_on_vmexit(unsigned cpu, Bit32u reason, Bit64u qualification);
void tb_on_tlb_control(unsigned cpu, unsigned what);
void tb_on_step_begins(unsigned cpu);
bool tb_on_step_traps(unsigned cpu);
Bit64u tb_on_tsc(Bit64u ticks);

/* `what` of tb_on_branch() for a conditional branch; the others are Bochs' own BX_INSTR_IS_*. */
#define TB_BRANCH_CONDITIONAL 0u

#define BX_INSTR_INIT_ENV() tb_init_env()
#define BX_INSTR_EXIT_ENV() tb_exit_env()
#define BX_INSTR_INITIALIZE(cpu_id) tb_initialize(cpu_id)
#define BX_INSTR_EXIT(cpu_id)
#define BX_INSTR_RESET(cpu_id, type) tb_reset(cpu_id, type)
#define BX_INSTR_HLT(cpu_id)
#define BX_INSTR_MWAIT(cpu_id, addr, len, flags)
#define BX_INSTR_DEBUG_PROMPT()
#define BX_INSTR_DEBUG_CMD(cmd)

/* These run inside a member of BX_CPU_C, which BX_CPU_THIS_PTR names: where a trace begins, and
 * after an instruction that was due. */
#define BX_INSTR_MODE_IS_NEW()                                                                     \
    __builtin_expect(BX_CPU_THIS_PTR sregs[BX_SEG_REG_CS].selector.rpl != BX_CPU_THIS_PTR tb.rpl, 0)
#define BX_INSTR_BEFORE_EXECUTION(cpu_id, i)                                                       \
    do {                                                                                           \
        if (BX_INSTR_MODE_IS_NEW())                                                                \
            tb_on_mode(cpu_id);                                                                    \
    } while (0)

/* Of ours (testbed/patches/): one more instruction has retired. Has tb_on_deadline() to run? */
#define BX_INSTR_RETIRES_DUE()                                                                     \
    __builtin_expect(++BX_CPU_THIS_PTR tb.retired >= BX_CPU_THIS_PTR tb.deadline, 0)

#define BX_INSTR_REPEAT_ITERATION(cpu_id, i)                                                       \
    do {                                                                                           \
        struct tb_hot &hot_ = BX_CPU_THIS_PTR tb;                                                  \
        hot_.iterations[hot_.mode]++;                                                              \
        if (hot_.watch & TB_WATCH_LOG)                                                             \
            tb_on_committed(cpu_id);                                                               \
        if (hot_.deadline)                                                                         \
            hot_.deadline--;                                                                       \
    } while (0)

/* Of ours (testbed/patches/): what follows is BX_INSTR_RETIRES_DUE() all the same. */
#define BX_INSTR_REPEAT_SPLIT(cpu_id, i) tb_on_split(cpu_id)

#define BX_INSTR_OPCODE(cpu_id, i, opcode, len, is32, is64) tb_on_opcode(cpu_id, i)

#define BX_INSTR_CNEAR_BRANCH_TAKEN(cpu_id, from, to)                                              \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_BRANCH)                                            \
            tb_on_branch(cpu_id, TB_BRANCH_CONDITIONAL, from, to, 1, 0);                           \
    } while (0)
#define BX_INSTR_CNEAR_BRANCH_NOT_TAKEN(cpu_id, from)                                              \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_BRANCH)                                            \
            tb_on_branch(cpu_id, TB_BRANCH_CONDITIONAL, from, 0, 0, 0);                            \
    } while (0)
/* `i` is the handler's own. */
#define BX_INSTR_UCNEAR_BRANCH(cpu_id, what, from, to)                                             \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_BRANCH)                                            \
            tb_on_branch(cpu_id, what, from, to, 1, i->ilen());                                    \
    } while (0)
#define BX_INSTR_FAR_BRANCH(cpu_id, what, prev_cs, from, new_cs, to)                               \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_BRANCH)                                            \
            tb_on_far_branch(cpu_id, what, from, to);                                              \
    } while (0)

#define BX_INSTR_EXCEPTION(cpu_id, vector, error_code) tb_on_exception(cpu_id, vector)
#define BX_INSTR_INTERRUPT(cpu_id, vector) tb_on_interrupt(cpu_id, vector)
#define BX_INSTR_HWINTERRUPT(cpu_id, vector, cs, rip) tb_on_hwinterrupt(cpu_id, vector, rip)

/* CLFLUSHOPT and CLWB come here too; `i` is the handler's own. */
#define BX_INSTR_CLFLUSH(cpu_id, laddr, paddr) tb_on_clflush(i, paddr)
#define BX_INSTR_CACHE_CNTRL(cpu_id, what) tb_on_cache_control(cpu_id)
#define BX_INSTR_TLB_CNTRL(cpu_id, what, new_cr3) tb_on_tlb_control(cpu_id, what)
#define BX_INSTR_PREFETCH_HINT(cpu_id, what, seg, offset)                                          \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_MEMORY)                                            \
            tb_on_prefetch(cpu_id);                                                                \
    } while (0)

#define BX_INSTR_WATCHES_ACCESSES()                                                                \
    (BX_CPU_THIS_PTR tb.watch & (TB_WATCH_MEMORY | TB_WATCH_LINES | TB_WATCH_LOG))
#define BX_INSTR_LIN_ACCESS(cpu_id, lin, paddr, len, memtype, rw)                                  \
    do {                                                                                           \
        if (BX_INSTR_WATCHES_ACCESSES())                                                           \
            tb_on_memory(cpu_id, lin, paddr, len, rw);                                             \
    } while (0)
#define BX_INSTR_PHY_ACCESS(cpu_id, paddr, len, memtype, rw)
/* Of ours (testbed/patches/): the local APIC answers an access to its page. */
#define BX_INSTR_APIC_ACCESS(cpu_id) tb_on_apic_access(cpu_id)

#define BX_INSTR_INP(addr, len)
#define BX_INSTR_INP2(addr, len, val)
#define BX_INSTR_OUTP(addr, len, val) tb_on_outp(addr, len, val)

#define BX_INSTR_WRMSR(cpu_id, addr, value) tb_on_wrmsr(cpu_id, addr, value)
/* Of ours (testbed/patches/). True: the INIT is delivered later. */
#define BX_INSTR_INIT_SIGNAL(cpu_id) tb_on_init_signal(cpu_id)
#define BX_INSTR_VMEXIT(cpu_id, reason, qualification) tb_on_vmexit(cpu_id, reason, qualification)
/* False: this processor has no PTWRITE. */
#define BX_INSTR_PTWRITE(cpu_id, value, bytes) tb_on_ptwrite(cpu_id, value, bytes)
/* The guest's state and MSRs are loaded, no event is injected yet. */
#define BX_INSTR_VMENTRY(cpu_id) tb_on_vmentry(cpu_id)
/* An event's delivery is complete, its frame is on the stack. */
#define BX_INSTR_EVENT_DELIVERED(cpu_id)                                                           \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & (TB_WATCH_LOG | TB_WATCH_TRACE))                            \
            tb_on_event_delivered(cpu_id);                                                         \
    } while (0)
/* RFLAGS.TF is set as an instruction begins; is it to trap, now that it is complete? */
#define BX_INSTR_STEP_BEGINS(cpu_id) tb_on_step_begins(cpu_id)
#define BX_INSTR_STEP_TRAPS(cpu_id) tb_on_step_traps(cpu_id)
/* What the TSC has counted at this tick of the machine's clock. */
#define BX_INSTR_TSC(ticks) tb_on_tsc(ticks)
/* A page walk for laddr has set a bit of the entry at paddr. */
#define BX_INSTR_WALK_UPDATE(cpu_id, laddr, paddr)                                                 \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_LOG)                                               \
            tb_on_walk_update(cpu_id, laddr, paddr);                                               \
    } while (0)
/* A string instruction moves so many bytes of a page at once; the translation is in the TLB. */
#define BX_INSTR_STRING_ACCESS(cpu_id, laddr, len, rw)                                             \
    do {                                                                                           \
        if (BX_CPU_THIS_PTR tb.watch & TB_WATCH_LOG)                                               \
            tb_on_string(cpu_id, laddr, BX_DTLB_ENTRY_OF(laddr, 0)->ppf | PAGE_OFFSET(laddr), len, \
                         rw);                                                                      \
    } while (0)
