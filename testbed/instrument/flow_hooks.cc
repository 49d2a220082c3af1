// SPDX-License-Identifier: BSD-2-Clause
//
// Fills the flow log's records. An interrupt or NMI that a VM entry injects is delivered like any
// other. SDM Vol. 3, "Event Injection" and "Activity State".
#include "bochs.h"
#include "cpu.h"

#include "flow_hooks.h"
#include "knobs.h"
#include "model.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr Bit32u INTERRUPTION_VALID = 1u << 31;
constexpr Bit32u INTERRUPTION_TYPE = 7u << 8;
constexpr Bit32u INTERRUPTION_EXTERNAL = 0u << 8;
constexpr Bit32u INTERRUPTION_NMI = 2u << 8;
constexpr Bit32u INTERRUPTION_VECTOR = 0xff;

bool logged()
{
    return !knobs().flow_log.empty() && model_firmware_is_done();
}

FlowRecord record_of(const Processor &p, FlowKind kind, uint64_t value)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    // As RDTSC would read it in root mode and natively: no offset.
    return {cpu->get_TSC(), cpu->gen_reg[BX_64BIT_REG_RIP].rrx, cpu->cr3, value, kind,
            static_cast<uint8_t>(p.id), {}};
}

void write(Processor &p, const FlowRecord &record)
{
    bool slept = p.flow.asleep();

    p.flow.event(record, knobs().flow_log);
    // Asleep it has to be told of the next instruction.
    if (p.flow.asleep() != slept)
        processor_plan(p);
}

void write(Processor &p, FlowKind kind, uint64_t value)
{
    write(p, record_of(p, kind, value));
}

}  // namespace

void flow_event(Processor &p, FlowKind kind, uint64_t value)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    if (logged() && (!cpu->in_vmx || cpu->in_vmx_guest))
        write(p, kind, value);
}

void flow_exit(Processor &p, uint32_t reason)
{
    FlowRecord record = record_of(p, FLOW_EXIT, reason);

    if (!logged())
        return;
    // What is saved for the guest, as Bochs will in a moment: an instruction that exits has not
    // retired. Between two instructions both are the same.
    if (!IS_TRAP_LIKE_VMEXIT((reason & EXIT_REASON_BASIC)))
        record.rip = BX_CPU(p.id)->prev_rip;
    write(p, record);
}

void flow_entry(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u injected = cpu->vmcs.vmentry_interr_info;

    if (!logged())
        return;
    write(p, FLOW_ENTRY, injected);
    if (!(injected & INTERRUPTION_VALID)) {
        if (cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE) ==
            BX_CPU_C::BX_ACTIVITY_STATE_HLT)
            write(p, FLOW_HLT, 0);
        return;
    }
    if ((injected & INTERRUPTION_TYPE) == INTERRUPTION_EXTERNAL)
        write(p, FLOW_INTERRUPT, injected & INTERRUPTION_VECTOR);
    else if ((injected & INTERRUPTION_TYPE) == INTERRUPTION_NMI)
        write(p, FLOW_NMI, 0);
}

void flow_executes(Processor &p)
{
    if (p.flow.asleep())
        p.flow.executes(record_of(p, FLOW_WAKE, 0), knobs().flow_log);
}
