// SPDX-License-Identifier: BSD-2-Clause
//
// Fills the memory log's records. What is listed: the guest's (or, natively, the machine's) accesses
// to RAM, and of root mode its writes through linear addresses that are not the physical ones: what
// a hypervisor has for itself is mapped one to one, its way to the guest's memory is not. The hole
// below 1 MiB is a device's, and so is what lies past the RAM's end.
#include "bochs.h"
#include "cpu.h"
#include "memory/memory-bochs.h"

#include "knobs.h"
#include "memory_hooks.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr uint64_t HOLE_FIRST = 0xa0000;
constexpr uint64_t HOLE_END = 0x100000;
constexpr uint32_t ENTRY_BYTES = 8;

uint32_t listed;

bool in_root(const Processor &p)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    return cpu->in_vmx && !cpu->in_vmx_guest;
}

bool is_ram(uint64_t phy)
{
    return phy < BX_MEM(0)->get_memory_len() && (phy < HOLE_FIRST || phy >= HOLE_END);
}

uint64_t value_at(uint64_t phy, uint32_t len)
{
    Bit8u bytes[8] = {};
    uint64_t value = 0;

    BX_MEM(0)->readPhysicalPage(nullptr, phy, len, bytes);
    for (unsigned i = 0; i < len; i++)
        value |= uint64_t{bytes[i]} << 8 * i;
    return value;
}

MemoryRecord record_of(const Processor &p, MemoryKind kind)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const struct tb_hot &hot = tb_hot[p.id];
    MemoryRecord record = {};

    record.tsc = cpu->get_TSC();
    record.rip = cpu->prev_rip;
    record.cr3 = cpu->cr3;
    record.cpu = static_cast<uint8_t>(p.id);
    record.kind = kind;
    record.mode = in_root(p);
    record.retired = hot.retired[TB_MODE_KERNEL] + hot.retired[TB_MODE_USER];
    return record;
}

}  // namespace

void memory_log_turn(uint32_t rw)
{
    listed = knobs().memory_log.empty() ? 0 : rw & (MEMORY_READ | MEMORY_WRITE);
    for (unsigned n = 0; n < processor_count(); n++) {
        processor(n).memory.forget();
        processor_plan(processor(n));
    }
}

bool memory_log_is_on()
{
    return listed != 0;
}

void memory_access(Processor &p, uint64_t lin, uint64_t phy, uint32_t len, unsigned rw)
{
    bool write = rw & BX_WRITE;
    bool delivering = p.memory.delivering();

    // Bit 2 stands for shadow stacks.
    uint8_t how = (rw & BX_RW) == BX_RW ? MEMORY_READ | MEMORY_WRITE
                  : write               ? MEMORY_WRITE
                                        : MEMORY_READ;

    if (!(how & listed) || !is_ram(phy) || (in_root(p) && (!write || lin == phy)))
        return;
    // All that a delivery reads is tables, all that it writes is its frame.
    MemoryRecord record = record_of(p, !delivering ? MEMORY_INSTRUCTION
                                       : write     ? MEMORY_EVENT
                                                   : MEMORY_SYSTEM);
    record.lin = lin;
    record.phy = phy;
    record.len = len;
    record.rw = how;
    p.memory.access(record);
}

void memory_walk(Processor &p, uint64_t lin, uint64_t phy)
{
    if (!(listed & MEMORY_WRITE) || !is_ram(phy) || in_root(p))
        return;
    MemoryRecord record = record_of(p, MEMORY_WALK);
    record.lin = lin;
    record.phy = phy;
    record.len = ENTRY_BYTES;
    record.rw = MEMORY_WRITE;
    record.value = value_at(phy, ENTRY_BYTES);
    memory_log_append(knobs().memory_log, record);
}

void memory_complete(Processor &p)
{
    p.memory.commit(knobs().memory_log, value_at);
}

void memory_delivery(Processor &p)
{
    p.memory.deliver();
}

void memory_exit(Processor &p, uint32_t reason)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    p.memory.forget();
    if ((reason & EXIT_REASON_BASIC) != VMX_VMEXIT_VMCALL)
        return;
    MemoryRecord record = record_of(p, MEMORY_VMCALL);
    record.lin = cpu->gen_reg[BX_64BIT_REG_RAX].rrx;
    record.phy = cpu->gen_reg[BX_64BIT_REG_RBX].rrx;
    record.value = cpu->gen_reg[BX_64BIT_REG_RCX].rrx;
    memory_log_append(knobs().memory_log, record);
}
