// SPDX-License-Identifier: BSD-2-Clause
//
// What Bochs' processors do, for the flow log: nothing before the firmware is done, and nothing in
// root mode. An interrupt or NMI that a VM entry injects is delivered like any other. SDM Vol. 3,
// "Event Injection" and "Activity State".
#include "bochs.h"
#include "cpu.h"

#include "flow_log.h"
#include "model.h"
#include "part.h"
#include "processor.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr Bit32u INTERRUPTION_VALID = 1u << 31;
constexpr Bit32u INTERRUPTION_TYPE = 7u << 8;
constexpr Bit32u INTERRUPTION_EXTERNAL = 0u << 8;
constexpr Bit32u INTERRUPTION_NMI = 2u << 8;
constexpr Bit32u INTERRUPTION_VECTOR = 0xff;

FlowRecord record_of(const Processor &p, FlowKind kind, uint64_t value)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    // As RDTSC would read it in root mode and natively: no offset.
    return {cpu->get_TSC(),
            cpu->gen_reg[BX_64BIT_REG_RIP].rrx,
            cpu->speculative_rsp ? cpu->prev_rsp : cpu->gen_reg[BX_64BIT_REG_RSP].rrx,
            cpu->cr3,
            cpu->in_vmx_guest && cpu->vmcs.vmexec_ctrls2.EPT_ENABLE() ? cpu->vmcs.eptptr : 0,
            value,
            kind,
            static_cast<uint8_t>(p.id),
            {}};
}

class FlowPart : public Part {
public:
    unsigned watch(const Processor &p, bool) override
    {
        return logs_[p.id].asleep() ? TB_WATCH_EVENT : 0;
    }

    void executes(Processor &p) override
    {
        if (logs_[p.id].asleep())
            logs_[p.id].executes(record_of(p, FLOW_WAKE, 0), value);
    }

    void loads_cr3(Processor &p, uint64_t cr3) override { event(p, FLOW_CR3, cr3); }
    void sleeps(Processor &p, bool mwait) override { event(p, mwait ? FLOW_MWAIT : FLOW_HLT, 0); }
    void interrupt(Processor &p, unsigned vector) override { event(p, FLOW_INTERRUPT, vector); }
    void nmi(Processor &p) override { event(p, FLOW_NMI, 0); }
    void vm_exit(Processor &p, uint32_t reason) override;
    void vm_entry(Processor &p) override;

private:
    void write(Processor &p, const FlowRecord &record);
    void write(Processor &p, FlowKind kind, uint64_t with) { write(p, record_of(p, kind, with)); }
    void event(Processor &p, FlowKind kind, uint64_t with);

    FlowLog logs_[TB_MAX_CPUS];
    uint64_t offsets_[TB_MAX_CPUS] = {};
};

void FlowPart::write(Processor &p, const FlowRecord &record)
{
    FlowLog &log = logs_[p.id];
    bool slept = log.asleep();

    log.event(record, value);
    // Asleep it has to be told of the next instruction.
    if (log.asleep() != slept)
        processor_plan(p);
}

void FlowPart::event(Processor &p, FlowKind kind, uint64_t with)
{
    if (model_firmware_is_done() && !processor_in_root(p))
        write(p, kind, with);
}

void FlowPart::vm_exit(Processor &p, uint32_t reason)
{
    FlowRecord record = record_of(p, FLOW_EXIT, reason);

    if (!model_firmware_is_done())
        return;
    // What is saved for the guest, as Bochs will in a moment: an instruction that exits has not
    // retired. Between two instructions both are the same.
    if (!IS_TRAP_LIKE_VMEXIT((reason & EXIT_REASON_BASIC)))
        record.rip = BX_CPU(p.id)->prev_rip;
    write(p, record);
}

void FlowPart::vm_entry(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u injected = cpu->vmcs.vmentry_interr_info;
    // Bochs takes it over only after this.
    uint64_t offset = cpu->vmcs.vmexec_ctrls1.TSC_OFFSET()
                          ? cpu->VMread64(VMCS_64BIT_CONTROL_TSC_OFFSET)
                          : 0;

    if (!model_firmware_is_done())
        return;
    if (offset != offsets_[p.id])
        write(p, FLOW_OFFSET, offset);
    offsets_[p.id] = offset;
    write(p, FLOW_ENTRY, injected);
    if (!(injected & INTERRUPTION_VALID)) {
        if (cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE) == BX_CPU_C::BX_ACTIVITY_STATE_HLT)
            write(p, FLOW_HLT, 0);
        return;
    }
    if ((injected & INTERRUPTION_TYPE) == INTERRUPTION_EXTERNAL)
        write(p, FLOW_INTERRUPT, injected & INTERRUPTION_VECTOR);
    else if ((injected & INTERRUPTION_TYPE) == INTERRUPTION_NMI)
        write(p, FLOW_NMI, 0);
}

}  // namespace

Part &flow_log_part()
{
    static FlowPart part;

    return part;
}
