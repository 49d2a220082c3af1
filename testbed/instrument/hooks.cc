// SPDX-License-Identifier: BSD-2-Clause
//
// Where Bochs' calls arrive: each hook goes to the parts that want it, in an order that matters and
// is written down here. Holds no state.
#include "bochs.h"
#include "cpu.h"

#include <cstdlib>

#include "apic_pmi.h"
#include "decode.h"
#include "fork_server.h"
#include "hot.h"
#include "knobs.h"
#include "machine.h"
#include "model.h"
#include "mwait_wake.h"
#include "msr_index.h"
#include "part.h"
#include "pc_system.h"
#include "precise.h"
#include "processor.h"
#include "pt_machine.h"
#include "pt_vmx.h"
#include "vmx_caps.h"
#include "vmx_switch.h"

namespace {

constexpr unsigned VECTOR_DB = 1;
constexpr unsigned VECTOR_NMI = 2;
constexpr unsigned CPL_USER = 3;
constexpr unsigned RANDOM_SEED = 1;

Arrival arrival_of(const BX_CPU_C *cpu)
{
    return processor_in_root(processor(cpu->bx_cpuid)) ? ARRIVAL_ROOT : ARRIVAL_NONROOT;
}

BranchKind kind_of(unsigned what)
{
    switch (what) {
    case TB_BRANCH_CONDITIONAL:
        return BRANCH_CONDITIONAL;
    case BX_INSTR_IS_JMP:
        return BRANCH_REL_JMP;
    case BX_INSTR_IS_JMP_INDIRECT:
        return BRANCH_IND_JMP;
    case BX_INSTR_IS_CALL:
        return BRANCH_REL_CALL;
    case BX_INSTR_IS_CALL_INDIRECT:
        return BRANCH_IND_CALL;
    case BX_INSTR_IS_RET:
        return BRANCH_RET;
    }
    return BRANCH_FAR;
}

bool parts_want_branches(const Processor &p)
{
    return parts_watch(p, processor_in_root(p)) & TB_WATCH_BRANCH;
}

bool in_user_mode(const Processor &p)
{
    return BX_CPU(p.id)->sregs[BX_SEG_REG_CS].selector.rpl == CPL_USER;
}

void record(Processor &p, BranchKind kind, Bit64u from, Bit64u to, bool mispredicted)
{
    bool user = in_user_mode(p);
    uint64_t cycles = p.events.instructions();

    const Branch branch = {kind, from, to, user, mispredicted, cycles};

    if (processor_records(p) && p.records().record(branch)) {
        p.events.lbr_inserts[hot_of(p.id).mode]++;
        processor_happens(p);
    }
    if (processor_stores_branches(p))
        p.bts.branch(p.debugctl, from, to, user, mispredicted);
}

void branch(Processor &p, BranchKind kind, Bit64u from, Bit64u to, bool taken)
{
    struct tb_hot &hot = hot_of(p.id);
    bool miss = p.predictor.miss(kind, from, to, taken);

    p.events.branches[branch_class(kind, taken)][hot.mode]++;
    p.events.branch_misses[branch_class(kind, taken)][hot.mode] += miss;
    processor_happens(p);
    if (!taken)
        return;
    p.step_branched = true;
    if (parts_want_branches(p))
        tell_parts(&Part::branch, p,
                   TracedBranch{from, to, p.events.instructions(), kind, miss,
                                (hot.mode & TB_MODE_USER) != 0, in_user_mode(p), false, 0});
    precise_branch(p, from);
    record(p, kind, from, to, miss);
}

void await_handler(Processor &p, Bit64u rip, unsigned vector, bool injected)
{
    p.event_branch = true;
    p.event_from = rip;
    p.event_vector = vector;
    // Not by the mode of the last instruction, which may have been a return to user mode.
    p.event_user = in_user_mode(p);
    p.event_injected = injected;
    hot_watch_next(hot_of(p.id));
}

// An event is delivered: what it interrupted has not retired, and its own accesses are nobody's.
// Remembers where it came from; its handler's address is known at the next instruction.
void event_from(Processor &p, Bit64u rip, unsigned vector)
{
    processor_untouched(p);
    precise_forget(p);
    if (pt_on(p))
        p.pt->trace.event_from(rip);
    if (hot_of(p.id).watch & TB_WATCH_MEMORY) {
        p.event_memory = true;
        hot_watch_next(hot_of(p.id));
    }
    if (processor_records(p) || parts_want_branches(p) || processor_stores_branches(p))
        await_handler(p, rip, vector, false);
}

void moves_cr3(Processor &p)
{
    tell_parts(&Part::loads_cr3, p, BX_CPU(p.id)->cr3);
    if (!pt_on(p))
        return;
    p.pt->trace.mov_cr3(BX_CPU(p.id)->gen_reg[BX_64BIT_REG_RIP].rrx);
    processor_look_soon(p);
}

// The next instruction is of the mode that the last one was of, and nobody wants to hear of it.
bool as_before(unsigned cpu)
{
    const struct tb_hot &hot = hot_of(cpu);

    return (hot.world | unsigned{in_user_mode(processor(cpu))}) == hot.mode &&
           !(hot.watch & TB_WATCH_EVENT);
}

// An instruction begins that is not.
void begins(Processor &p, bool user)
{
    struct tb_hot &hot = hot_of(p.id);
    BX_CPU_C *bochs = BX_CPU(p.id);

    tell_parts(&Part::executes, p);
    if (knobs().exit_paths && p.ledger.in_exit())
        p.paths.step(bochs->gen_reg[BX_64BIT_REG_RIP].rrx, p.events.instructions_in(true),
                     p.ledger.vmcs_accesses());
    if (hot.world == TB_WORLD_UNKNOWN) {
        if (bochs->in_vmx)
            model_firmware_done();
        if (bochs->in_vmx && p.pt)
            p.pt->vmxon();
        hot.world = arrival_of(bochs) == ARRIVAL_ROOT ? TB_WORLD_ROOT : 0;
    }
    hot.mode = hot.world | user;
    if (p.platform.asleep())
        p.platform.wakes(bx_pc_system.time_ticks());
    if (p.event_memory) {
        p.event_memory = false;
        processor_untouched(p);
    }
    if (p.event_branch) {
        p.event_branch = false;
        processor_plan(p);
        uint64_t to = bochs->gen_reg[BX_64BIT_REG_RIP].rrx;
        if (parts_want_branches(p))
            tell_parts(&Part::branch, p,
                       TracedBranch{p.event_from, to, p.events.instructions(), BRANCH_FAR, false,
                                    p.event_user, in_user_mode(p), true, p.event_vector});
        if (!p.event_injected) {
            record(p, BRANCH_FAR, p.event_from, to, false);
            precise_delivered(p);
        }
        // What these have made due is seen when the handler's first instruction is complete.
        processor_look_soon(p);
        return;
    }
    processor_plan(p);
    if (p.pt) {
        p.pt->executes();
        if (p.pt->wants_boundary())
            p.pt->boundary();
        processor_plan(p);
    }
}

}  // namespace

void tb_init_env(void)
{
    knobs_init();
    parts_take_knobs();
    fork_server_check();
    decode_init();
    machine_init();
}

void tb_exit_env(void) { machine_exit(); }

void tb_initialize(unsigned cpu)
{
    // Bochs seeds what RDRAND gives by the host's clock, and Linux asks it where to load itself.
    std::srand(RANDOM_SEED);
    processor_create(cpu);
    vmx_caps_apply(cpu);
    model_install(processor(cpu));
    pt_take_knobs(processor(cpu));
}

void tb_reset(unsigned cpu, unsigned type)
{
    hot_set_world(hot_of(cpu), TB_WORLD_UNKNOWN);
    // The MSRs of the model survive an INIT.
    if (!machine_is_reset(type == BX_RESET_HARDWARE))
        return;
    model_reset(processor(cpu));
    vmx_caps_reset(cpu);
    if (static_cast<int>(cpu) == BX_SMP_PROCESSORS - 1)
        machine_reset();
}

void tb_on_mode(unsigned cpu)
{
    struct tb_hot &hot = hot_of(cpu);

    if (!as_before(cpu))
        begins(processor(cpu), in_user_mode(processor(cpu)));
    hot.rpl = as_before(cpu) ? BX_CPU(cpu)->sregs[BX_SEG_REG_CS].selector.rpl : TB_RPL_NONE;
    processor_set_deadline(processor(cpu));
}

void tb_on_deadline(unsigned cpu, bxInstruction_c *i)
{
    struct tb_hot &hot = hot_of(cpu);

    if (hot.watch & TB_WATCH_LOG) {
        // Before it counts.
        hot.retired--;
        tb_on_committed(cpu);
        hot.retired++;
    }
    // If no look is due, only the next instruction is to be told of.
    Processor &p = processor(cpu);
    if (processor_is_due(p))
        processor_look(p, i);
}

// An interrupt splits a REP instruction: it has not retired, and what it has touched so far counts
// with the rest. A step in it, by TF or by the monitor trap flag, retires each time, as before.
void tb_on_split(unsigned cpu)
{
    if (BX_CPU(cpu)->get_TF() || BX_CPU(cpu)->is_pending(BX_EVENT_VMX_MONITOR_TRAP_FLAG))
        return;
    // Its time passes all the same.
    hot_of(cpu).retired--;
    BX_CPU(cpu)->icount++;
    processor_untouched(processor(cpu));
}

void tb_on_opcode(unsigned, bxInstruction_c *i) { decode_instruction(i); }

void tb_on_branch(unsigned cpu, unsigned what, Bit64u from, Bit64u to, unsigned taken,
                  unsigned length)
{
    Processor &p = processor(cpu);

    branch(p, kind_of(what), from, to, taken);
    if (!pt_on(p))
        return;
    if (what == TB_BRANCH_CONDITIONAL)
        p.pt->trace.conditional(taken, taken ? to : BX_CPU(cpu)->gen_reg[BX_64BIT_REG_RIP].rrx);
    else
        p.pt->branch(what, to, length);
}

void tb_on_far_branch(unsigned cpu, unsigned what, Bit64u from, Bit64u to)
{
    Processor &p = processor(cpu);

    branch(p, BRANCH_FAR, from, to, true);
    if (pt_on(p))
        p.pt->far_branch(what, from, to);
}

void tb_on_exception(unsigned cpu, unsigned vector)
{
    processor(cpu).ledger.stops();
    event_from(processor(cpu), BX_CPU(cpu)->prev_rip, vector);
}

void tb_on_interrupt(unsigned cpu, unsigned vector)
{
    tell_parts(&Part::delivery, processor(cpu));
    // SDM Vol. 3, "IA32_DEBUGCTL MSR": a debug exception ends branch recording and stepping; one
    // that a VM entry injects does not ("Details of Vectored-Event Injection").
    bool injected = processor(cpu).injecting;
    processor(cpu).injecting = false;
    if (injected && parts_want_branches(processor(cpu)))
        await_handler(processor(cpu), BX_CPU(cpu)->gen_reg[BX_64BIT_REG_RIP].rrx, vector, true);
    if (vector == VECTOR_DB && !injected) {
        processor(cpu).debugctl &= ~(DEBUGCTL_LBR | DEBUGCTL_BTF);
        processor(cpu).arch_lbr.debug_exception();
        processor_plan(processor(cpu));
    }
}

void tb_on_hwinterrupt(unsigned cpu, unsigned vector, Bit64u rip)
{
    Processor &p = processor(cpu);
    Arrival where = arrival_of(BX_CPU(cpu));

    if (vector == VECTOR_NMI) {
        tell_parts(&Part::nmi, p);
        apic_nmi_arrived(p, where);
        if (where == ARRIVAL_NONROOT) {
            p.injector.nmi(p.events.instructions_in(false));
            processor_plan(p);
        }
    } else {
        tell_parts(&Part::interrupt, p, vector);
        apic_vector_arrived(p, vector, where);
        p.events.interrupts[hot_of(cpu).mode]++;
        processor_happens(p);
    }
    event_from(p, rip, vector);
}

void tb_on_outp(Bit16u port, unsigned len, unsigned value) { machine_outp(port, len, value); }

void tb_on_committed(unsigned cpu) { tell_parts(&Part::complete, processor(cpu)); }

void tb_on_event_delivered(unsigned cpu)
{
    Processor &p = processor(cpu);

    if (hot_of(cpu).watch & TB_WATCH_LOG)
        tell_parts(&Part::complete, p);
    if (pt_on(p)) {
        p.pt->trace.event_to(BX_CPU(cpu)->gen_reg[BX_64BIT_REG_RIP].rrx);
        processor_look_soon(p);
    }
}

bool tb_on_init_signal(unsigned cpu) { return mwait_wake_delays(cpu); }

void tb_on_wrmsr(unsigned, unsigned index, Bit64u) { model_wrmsr_seen(index); }

bool tb_on_ptwrite(unsigned cpu, Bit64u value, unsigned bytes)
{
    if (pt_on(processor(cpu)))
        processor(cpu).pt->trace.ptwrite(value, bytes, BX_CPU(cpu)->prev_rip);
    return knobs().pt == PT_WITH_PTWRITE;
}

void tb_on_vmentry(unsigned cpu) { pt_entered(processor(cpu)); }

void tb_on_vmexit(unsigned cpu, Bit32u reason, Bit64u)
{
    // What exits has not retired.
    processor_untouched(processor(cpu));
    tell_parts(&Part::vm_exit, processor(cpu), reason);
    vmx_exit_begins(processor(cpu), reason);
}

void tb_on_step_begins(unsigned cpu)
{
    processor(cpu).stepping = true;
    processor(cpu).step_branched = false;
}

// SDM Vol. 3, "Single-Stepping on Branches". What a VM entry has made pending traps in any case.
bool tb_on_step_traps(unsigned cpu)
{
    Processor &p = processor(cpu);
    bool waits_for_branch = p.stepping && (p.debugctl & DEBUGCTL_BTF) && !p.step_branched;

    p.stepping = false;
    return !waits_for_branch;
}

Bit64u tb_on_tsc(Bit64u ticks) { return model_tsc(ticks); }

void tb_on_tlb_control(unsigned cpu, unsigned what)
{
    if (what == BX_INSTR_CONTEXT_SWITCH)
        vmx_state_loaded(processor(cpu));
    else if (what == BX_INSTR_MOV_CR3)
        moves_cr3(processor(cpu));
}
