// SPDX-License-Identifier: BSD-2-Clause
#define NEED_CPU_REG_SHORTCUTS 1
#include "bochs.h"
#include "cpu.h"
#include "memory/memory-bochs.h"

#include "cpuid.h"
#include "hot.h"
#include "knobs.h"
#include "msr_index.h"
#include "platform.h"
#include "processor.h"
#include "pt_machine.h"
#include "vmx_caps.h"

namespace {

constexpr Bit32u CPUID_TSC = 0x15;
constexpr uint64_t PAGE_MASK = 0xfff;
constexpr uint64_t WRITTEN = 1;  // in the entry of a page
// Malformed: a translation that was not made ahead, which does not happen.
constexpr uint64_t BAD_ENTRY = 2;

PtShape shape_of(BX_CPU_C *cpu)
{
    PtShape shape;

    shape.ptwrite = knobs().pt == PT_WITH_PTWRITE;
    shape.address_bits = BX_PHY_ADDRESS_WIDTH;
    shape.linear_bits = cpu->is_cpu_extension_supported(BX_ISA_LA57) ? 57 : 48;
    return shape;
}

// Of the model, or of the knob tsc_hz.
PtCrystal crystal_of(BX_CPU_C *cpu)
{
    cpuid_function_t leaf;

    cpu->cpuid->get_cpuid_leaf(CPUID_TSC, 0, &leaf);
    return leaf.eax == 0 || leaf.ebx == 0 ? PtCrystal() : PtCrystal{leaf.ebx, leaf.eax};
}

}  // namespace

PtMachine::PtMachine(Processor &p)
    : trace(*this, *this, shape_of(BX_CPU(p.id)), crystal_of(BX_CPU(p.id)), MODEL_RATIO), p_(p)
{
    trace.set_overflow(knobs().pt_overflow_every, knobs().pt_overflow_branches);
}

PtContext PtMachine::context()
{
    BX_CPU_C *cpu = BX_CPU(p_.id);
    bool conceals = cpu->in_vmx_guest && cpu->vmcs.vmexec_ctrls2.PTRACE_SUPPRESS_GUEST_VMX_TRACE();
    PtContext context;

    context.cpl = cpu->sregs[BX_SEG_REG_CS].selector.rpl;
    context.cr3 = cpu->cr3;
    context.pae = cpu->cr0.get_PG() && cpu->cr4.get_PAE() && !cpu->long_mode();
    context.exec.l = cpu->long64_mode();
    context.exec.d = cpu->sregs[BX_SEG_REG_CS].cache.u.segment.d_b;
    context.non_root = cpu->in_vmx_guest && !conceals;
    context.shows_vmcs = cpu->in_vmx && !conceals;
    context.vmcs = cpu->vmcsptr;
    return context;
}

PtMoment PtMachine::now()
{
    BX_CPU_C *cpu = BX_CPU(p_.id);

    return {cpu->get_Virtual_TSC(), cpu->get_TSC(), p_.events.instructions()};
}

bool PtMachine::by_guest_addresses() const
{
    const BX_CPU_C *cpu = BX_CPU(p_.id);

    // On a VM exit the guest's control is still there, and so are its translations.
    return (cpu->in_vmx_guest || p_.exiting) && cpu->vmcs.vmexec_ctrls2.PROCESSOR_TRACE_USE_GPA();
}

bool PtMachine::find(uint64_t address, bool writes, uint64_t *physical)
{
    BX_CPU_C *cpu = BX_CPU(p_.id);
    uint64_t page = address & ~PAGE_MASK;

    if (!by_guest_addresses()) {
        *physical = address;
        return true;
    }
    auto known = pages_.find(page);
    if (known == pages_.end() || (writes && !(known->second & WRITTEN))) {
        if (!translating_)
            return false;
        bx_phy_address found = cpu->translate_guest_physical(page, 0, false, false, false, false,
                                                             false, writes ? BX_WRITE : BX_READ);
        known = pages_.insert_or_assign(page, (found & ~PAGE_MASK) | (writes ? WRITTEN : 0)).first;
    }
    *physical = (known->second & ~PAGE_MASK) | (address & PAGE_MASK);
    return true;
}

uint64_t PtMachine::read_entry(uint64_t address)
{
    uint64_t physical;
    Bit64u entry = BAD_ENTRY;

    if (find(address, false, &physical))
        BX_MEM(0)->readPhysicalPage(BX_CPU(p_.id), physical, sizeof(entry), &entry);
    return entry;
}

void PtMachine::write(uint64_t address, uint8_t byte)
{
    uint64_t physical;

    if (!find(address, true, &physical)) {
        p_.ledger.stored(STORED_PT_LOST);
        return;
    }
    BX_MEM(0)->writePhysicalPage(BX_CPU(p_.id), physical, 1, &byte);
    p_.ledger.stored(hot_of(p_.id).world == TB_WORLD_ROOT ? STORED_PT_ROOT : STORED_PT);
}

// Section 2.6.2, "ToPA PMI".
void PtMachine::interrupt()
{
    p_.pmu.raise(GLOBAL_STATUS_TRACE_TOPA_PMI, p_.events.instructions() + 1);
    processor_look_soon(p_);
}

void PtMachine::boundary()
{
    bool starts = trace.starting();
    uint64_t next;

    if (by_guest_addresses() && (starts || trace.on())) {
        translating_ = true;
        pages_.clear();
        // What the registers say is looked at once more by start().
        if (!starts || trace.output().begin() == PT_OUTPUT_GOES_ON) {
            uint64_t physical;
            find(trace.output().page(), true, &physical);
            if (trace.output().next_page(&next))
                find(next, true, &physical);
        }
        translating_ = false;
    }
    uint64_t page = trace.output().page();
    if (starts)
        trace.start(BX_CPU(p_.id)->gen_reg[BX_64BIT_REG_RIP].rrx);
    // Where its packets went on to the next page, the one after that is not translated yet.
    if (trace.output().page() == page)
        trace.output().moved();
}

void PtMachine::branch(unsigned what, uint64_t to, unsigned length)
{
    uint64_t next = BX_CPU(p_.id)->prev_rip + length;

    switch (what) {
    case BX_INSTR_IS_JMP:
        trace.near(PT_DIRECT, to, 0);
        break;
    case BX_INSTR_IS_CALL:
        trace.near(PT_DIRECT, to, next);
        break;
    case BX_INSTR_IS_JMP_INDIRECT:
        trace.near(PT_INDIRECT, to, 0);
        break;
    case BX_INSTR_IS_CALL_INDIRECT:
        trace.near(PT_INDIRECT, to, next);
        break;
    case BX_INSTR_IS_RET:
        trace.near(PT_RETURN, to, 0);
        break;
    }
}

void PtMachine::far_branch(unsigned what, uint64_t from, uint64_t to)
{
    if (what == BX_INSTR_IS_INT)
        trace.software_interrupt(from, to);
    else
        trace.far(to);
}

MsrResult PtMachine::write_msr(uint32_t index, uint64_t value, bool list)
{
    const BX_CPU_C *cpu = BX_CPU(p_.id);
    uint64_t ip = cpu->prev_rip;

    // Section 2.8.2.
    if (index == IA32_RTIT_CTL && (value & RTIT_CTL_TRACEEN) && cpu->in_vmx &&
        !vmx_caps_pt_in_vmx())
        return MSR_FAULT;
    return trace.write_msr(index, value, list ? nullptr : &ip);
}

// Section 2.8.2.
void PtMachine::vmxon()
{
    if (!vmx_caps_pt_in_vmx() && (trace.ctl() & RTIT_CTL_TRACEEN))
        trace.write_msr(IA32_RTIT_CTL, trace.ctl() & ~RTIT_CTL_TRACEEN, nullptr);
}

void PtMachine::vmptrld_begins()
{
    loads_vmcs_ = trace.on();
    vmcs_ = BX_CPU(p_.id)->vmcsptr;
}

// One that loads the VMCS that is there already sends nothing here.
void PtMachine::executes()
{
    uint64_t vmcs = BX_CPU(p_.id)->vmcsptr;

    if (loads_vmcs_ && vmcs != vmcs_ && trace.on())
        trace.vmptrld(vmcs);
    loads_vmcs_ = false;
}

void pt_take_knobs(Processor &p)
{
    p.pt.reset();
    if (knobs().pt != PT_OFF)
        p.pt = std::make_unique<PtMachine>(p);
}

bool pt_on(const Processor &p) { return p.pt && p.pt->trace.on(); }
