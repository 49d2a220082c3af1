// SPDX-License-Identifier: BSD-2-Clause
//
// RDPMC (which Bochs answers with 0), the region marker, the instructions that the ledger counts,
// and those that switch between root mode and no VMX. Each handler is a member of a class that adds
// no data to Bochs' processor.
#define NEED_CPU_REG_SHORTCUTS 1
#include "bochs.h"
#include "cpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "decode.h"
#include "cpuid.h"
#include "decoder/ia_opcodes.h"
#include "fork_server.h"
#include "guest_files.h"
#include "hot.h"
#include "knobs.h"
#include "msr_index.h"
#include "part.h"
#include "pc_system.h"
#include "processor.h"
#include "pt_machine.h"
#include "vmx_caps.h"
#include "vmx_switch.h"

namespace {

// Bochs' own handlers: by opcode, for the memory and the register form.
struct Originals {
    BxExecutePtr_tR memory = nullptr;
    BxExecutePtr_tR registers = nullptr;
};
Originals originals[BX_IA_LAST];
FpOpcode fp_opcodes[BX_IA_LAST];

constexpr unsigned MARKER_BEGIN = 1;
constexpr unsigned MARKER_END = 0;
constexpr unsigned MARKER_REQUEST = 2;
constexpr unsigned MARKER_HOST_NMI = 3;
constexpr unsigned MARKER_PMI = 4;
constexpr unsigned MARKER_WORDS = 6;
constexpr unsigned MARKER_FILE = 7;
constexpr unsigned WORDS_MAX = 4096;  // bytes, with the end: no guest needs more room

class Handlers : public BX_CPU_C {
public:
    void rdpmc(bxInstruction_c *i);
    void marker(bxInstruction_c *i);
    void counted(bxInstruction_c *i);
    void rdmsr(bxInstruction_c *i);
    void vmx_onoff(bxInstruction_c *i);
    void vmptrld(bxInstruction_c *i);
    void vm_entry(bxInstruction_c *i);
    void bulk_string(bxInstruction_c *i);
    void floating(bxInstruction_c *i);
    void sleep(bxInstruction_c *i);

    /* Some state of the processor keeps it from executing what it is. */
    static bool refused(const bxInstruction_c *i)
    {
        return i->execute1 == &BX_CPU_C::BxError || i->execute1 == &BX_CPU_C::BxNoSSE ||
               i->execute1 == &BX_CPU_C::BxNoAVX || i->execute1 == &BX_CPU_C::BxNoEVEX;
    }

private:
    void take_file();
    void give_words();
    void region(bool begins);
    Executed executed_kind(unsigned opcode) const;
    void in_flight(const bxInstruction_c *i);
    void original(bxInstruction_c *i)
    {
        const Originals &own = originals[i->getIaOpcode()];
        (i->modC0() ? own.registers : own.memory).function(this, i);
    }
};

// SDM Vol. 2, "RDPMC": privilege first, then the VM exit, then the counter's number.
void Handlers::rdpmc(bxInstruction_c *i)
{
    uint64_t value;

    in_flight(i);
    if (!cr4.get_PCE() && CPL != 0)
        exception(BX_GP_EXCEPTION, 0);
    if (in_vmx_guest && vmcs.vmexec_ctrls1.RDPMC_VMEXIT())
        VMexit(VMX_VMEXIT_RDPMC, 0);
    if (!processor(bx_cpuid).pmu.rdpmc(ECX, CPL != 0, &value))
        exception(BX_GP_EXCEPTION, 0);
    RAX = static_cast<Bit32u>(value);
    RDX = value >> 32;
    BX_NEXT_INSTR(i);
}

void Handlers::region(bool begins)
{
    Processor &p = processor(bx_cpuid);

    if (begins)
        p.ledger.region_begin(EAX, hot_of(bx_cpuid).mode);
    else
        p.ledger.region_end(EAX);
    for (unsigned n = 0; knobs().regions_of_all && n < processor_count(); n++)
        if (n != bx_cpuid && begins)
            processor(n).ledger.region_begin_here(EAX);
        else if (n != bx_cpuid)
            processor(n).ledger.region_end_here(EAX);
    tell_parts(&Part::region, p, EAX, begins);
}

// By the guest's own page tables; one that is not there faults as in a load. First all is read: the
// instruction may have to be executed again.
void Handlers::take_file()
{
    static std::vector<char> data;            // no leak where a fault leaves this function
    char name[GUEST_FILE_NAME_MAX + 2] = "";  // one more than is good, and the end

    for (size_t at = 0; at <= GUEST_FILE_NAME_MAX; at++) {
        access_read_linear(RSI + at, 1, CPL, BX_READ, 0, &name[at]);
        if (name[at] == '\0')
            break;
    }
    if (EAX > GUEST_FILE_PIECE_MAX)
        return guest_file_ignore(name, "a piece of more than 1 MiB");
    data.resize(EAX);
    for (size_t at = 0; at < data.size(); at++)
        access_read_linear(RDX + at, 1, CPL, BX_READ, 0, &data[at]);
    guest_file_take(knobs().guest_files, name, data.data(), data.size());
}

// First all is zero: that faults as a store would, and the instruction is executed again. What the
// words are is asked for only then, for a server waits there.
void Handlers::give_words()
{
    Bit32u size = EAX < WORDS_MAX ? EAX : WORDS_MAX;
    auto put = [this](Bit64u at, char byte) {
        access_write_linear(RDX + at, 1, CPL, BX_WRITE, 0, &byte);
    };

    for (Bit32u at = 0; at < size; at++)
        put(at, 0);
    std::string words = fork_server_words();
    if (!words.empty() && words.size() >= size) {
        std::fprintf(stderr, "testbed: %zu characters of words, and the guest has room for %u\n",
                     words.size(), size > 0 ? size - 1 : 0);
        std::exit(EXIT_FAILURE);
    }
    for (Bit32u at = 0; at < words.size(); at++)
        put(at, words[at]);
    RAX = words.size();
}

void Handlers::marker(bxInstruction_c *i)
{
    // 16-bit code of the firmware may hold the same bytes by chance.
    if (!long64_mode())
        return original(i);
    if (ECX == MARKER_BEGIN)
        region(true);
    else if (ECX == MARKER_END)
        region(false);
    else if (ECX == MARKER_REQUEST)
        processor(bx_cpuid).injector.set_request({RDX, EAX});
    else if (ECX == MARKER_HOST_NMI)
        processor_host_nmi(processor(bx_cpuid));
    else if (ECX == MARKER_PMI && (RAX & ~PMU_OTHER_PMIS) == 0)
        processor_raise_pmi(processor(bx_cpuid), RAX);
    else if (ECX == MARKER_WORDS)
        give_words();
    else if (ECX == MARKER_FILE && !knobs().guest_files.empty())
        take_file();
    else
        tell_parts(&Part::marker, ECX, EAX);
    original(i);
}

unsigned string_touches(unsigned opcode)
{
    switch (opcode) {
    case BX_IA_REP_STOSB_YbAL:
    case BX_IA_REP_STOSW_YwAX:
    case BX_IA_REP_STOSD_YdEAX:
    case BX_IA_REP_STOSQ_YqRAX:
        return TOUCHED_STORE;
    }
    return TOUCHED_LOAD | TOUCHED_STORE;
}

Executed Handlers::executed_kind(unsigned opcode) const
{
    switch (opcode) {
    case BX_IA_VMREAD_EdGd:
    case BX_IA_VMREAD_EqGq:
        return EXECUTED_VMREAD;
    case BX_IA_VMWRITE_GdEd:
    case BX_IA_VMWRITE_GqEq:
        return EXECUTED_VMWRITE;
    case BX_IA_RDMSR:
        return executed_rdmsr(ECX);
    case BX_IA_WRMSR:
        return executed_wrmsr(ECX, Bit64u{EDX} << 32 | EAX);
    case BX_IA_VERW_Ew:
        return EXECUTED_VERW;
    case BX_IA_RDPMC:
        return EXECUTED_RDPMC;
    case BX_IA_IRET_Op16:
    case BX_IA_IRET_Op32:
    case BX_IA_IRET_Op64:
        return EXECUTED_IRET;
    case BX_IA_MOV_CR3Rd:
    case BX_IA_MOV_CR3Rq:
        return EXECUTED_CR3_LOAD;
    case BX_IA_CPUID:
        return EXECUTED_CPUID;
    }
    return EXECUTED_KINDS;
}

void Handlers::in_flight(const bxInstruction_c *i)
{
    unsigned world = hot_of(bx_cpuid).mode & TB_WORLD_ROOT ? WORLD_ROOT : WORLD_NONROOT;

    processor(bx_cpuid).ledger.executes(executed_kind(i->getIaOpcode()), world);
}

void Handlers::counted(bxInstruction_c *i)
{
    in_flight(i);
    original(i);
}

// Bits of IA32_VMX_MISC are knobs', and Bochs has that MSR as a constant.
void Handlers::rdmsr(bxInstruction_c *i)
{
    if (ECX != IA32_VMX_MISC || CPL != 0 || in_vmx_guest ||
        vmx_caps_misc(VMX_MSR_MISC) == VMX_MSR_MISC)
        return counted(i);
    in_flight(i);
    Bit64u value = vmx_caps_misc(VMX_MSR_MISC);
    RAX = GET32L(value);
    RDX = GET32H(value);
    BX_NEXT_INSTR(i);
}

void Handlers::vmx_onoff(bxInstruction_c *i)
{
    // Whether it succeeds shows at the next instruction.
    hot_set_world(hot_of(bx_cpuid), TB_WORLD_UNKNOWN);
    original(i);
}

// Whether it succeeds shows at the next instruction.
void Handlers::vmptrld(bxInstruction_c *i)
{
    Processor &p = processor(bx_cpuid);

    if (pt_on(p)) {
        p.pt->vmptrld_begins();
        hot_watch_next(hot_of(bx_cpuid));
    }
    original(i);
}

void Handlers::vm_entry(bxInstruction_c *i)
{
    Processor &p = processor(bx_cpuid);

    vmx_entry_begins(p);
    original(i);
    // Only a VM entry that Bochs refuses before it loads any state comes back to here.
    vmx_entry_refused(p);
}

// Bochs moves and fills memory in bulk, past its own hooks.
void Handlers::bulk_string(bxInstruction_c *i)
{
    Bit64u count = i->as64L() ? RCX : i->as32L() ? ECX : CX;

    if ((hot_of(bx_cpuid).watch & TB_WATCH_MEMORY) && (count != 0 || !i->repUsedL()))
        processor_touches(processor(bx_cpuid), string_touches(i->getIaOpcode()));
    original(i);
}

// Counted when it retires: its operand may be in a page that is not there.
void Handlers::floating(bxInstruction_c *i)
{
    Processor &p = processor(bx_cpuid);

    if (p.counts_fp) {
        const FpOpcode &opcode = fp_opcodes[i->getIaOpcode()];
        p.fp_counts = opcode.counts;
        p.fp_class = fp_class(opcode, i->getVL());
        processor_look_soon(p);
    }
    original(i);
}

// One that exits or faults does not come back to here, and MWAIT need not fall asleep.
void Handlers::sleep(bxInstruction_c *i)
{
    bool mwait = i->getIaOpcode() == BX_IA_MWAIT;

    original(i);
    if (activity_state == BX_ACTIVITY_STATE_ACTIVE)
        return;
    tell_parts(&Part::sleeps, processor(bx_cpuid), mwait);
    if (!mwait || !knobs().platform.on)
        return;
    processor(bx_cpuid).platform.sleeps(EAX, bx_pc_system.time_ticks());
    // The next instruction says that it is over.
    if (processor(bx_cpuid).platform.asleep())
        hot_watch_next(hot_of(bx_cpuid));
}

void replace(bxInstruction_c *i, void (Handlers::*handler)(bxInstruction_c *))
{
    Originals &own = originals[i->getIaOpcode()];
    BxExecutePtr_tR ours = static_cast<BxMethodPtr_tR>(handler);

    if (i->execute1 == ours)
        return;
    (i->modC0() ? own.registers : own.memory) = i->execute1;
    i->execute1 = ours;
}

}  // namespace

void decode_instruction(bxInstruction_c *i)
{
    switch (i->getIaOpcode()) {
    case BX_IA_RDPMC:
        replace(i, &Handlers::rdpmc);
        break;
    case BX_IA_XCHG_EwGw:
        if (i->modC0() && i->dst() == BX_16BIT_REG_BX && i->src() == BX_16BIT_REG_BX)
            replace(i, &Handlers::marker);
        break;
    case BX_IA_VMREAD_EdGd:
    case BX_IA_VMREAD_EqGq:
    case BX_IA_VMWRITE_GdEd:
    case BX_IA_VMWRITE_GqEq:
    case BX_IA_WRMSR:
    case BX_IA_VERW_Ew:
    case BX_IA_IRET_Op16:
    case BX_IA_IRET_Op32:
    case BX_IA_IRET_Op64:
    case BX_IA_MOV_CR3Rd:
    case BX_IA_MOV_CR3Rq:
    case BX_IA_CPUID:
        replace(i, &Handlers::counted);
        break;
    case BX_IA_REP_STOSB_YbAL:
    case BX_IA_REP_STOSW_YwAX:
    case BX_IA_REP_STOSD_YdEAX:
    case BX_IA_REP_STOSQ_YqRAX:
    case BX_IA_REP_MOVSB_YbXb:
    case BX_IA_REP_MOVSW_YwXw:
    case BX_IA_REP_MOVSD_YdXd:
    case BX_IA_REP_MOVSQ_YqXq:
        replace(i, &Handlers::bulk_string);
        break;
    case BX_IA_RDMSR:
        replace(i, &Handlers::rdmsr);
        break;
    case BX_IA_VMXON_Mq:
    case BX_IA_VMXOFF:
        replace(i, &Handlers::vmx_onoff);
        break;
    case BX_IA_VMPTRLD_Mq:
        if (knobs().pt != PT_OFF)
            replace(i, &Handlers::vmptrld);
        break;
    case BX_IA_HLT:
    case BX_IA_MWAIT:
        if (!Handlers::refused(i))
            replace(i, &Handlers::sleep);
        break;
    case BX_IA_VMLAUNCH:
    case BX_IA_VMRESUME:
        replace(i, &Handlers::vm_entry);
        break;
    default:
        if (fp_opcodes[i->getIaOpcode()].counts != 0 && !Handlers::refused(i))
            replace(i, &Handlers::floating);
        break;
    }
}

void decode_init()
{
    for (unsigned opcode = 0; opcode < BX_IA_LAST; opcode++)
        fp_opcodes[opcode] = fp_opcode(get_bx_opcode_name(opcode) + std::strlen("BX_IA_"));
}
