// SPDX-License-Identifier: BSD-2-Clause
//
// Fills the memory log's records. What is listed: the guest's (or, natively, the machine's)
// accesses to RAM (and, where they are asked for, to devices), and of root mode its writes through
// linear addresses that are not the physical ones: what a hypervisor has for itself is mapped one
// to one, its way to the guest's memory is not. The hole below 1 MiB is a device's, and so is what
// lies past the RAM's end.
#include "bochs.h"
#include "cpu.h"
#include "memory/memory-bochs.h"

#include "hot.h"
#include "memory_log.h"
#include "part.h"
#include "processor.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr uint64_t HOLE_FIRST = 0xa0000;
constexpr uint64_t HOLE_END = 0x100000;
constexpr uint32_t ENTRY_BYTES = 8;
constexpr uint32_t MARKER_MEMORY_LOG = 5;

bool is_ram(uint64_t phy)
{
    return phy < BX_MEM(0)->get_memory_len() && (phy < HOLE_FIRST || phy >= HOLE_END);
}

uint64_t value_at(uint64_t phy, uint32_t len)
{
    Bit8u bytes[8] = {};
    uint64_t value = 0;

    if (is_ram(phy))  // reading anything else might do something
        BX_MEM(0)->readPhysicalPage(nullptr, phy, len, bytes);
    for (unsigned i = 0; i < len; i++)
        value |= uint64_t{bytes[i]} << 8 * i;
    return value;
}

MemoryRecord record_of(const Processor &p, MemoryKind kind)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const struct tb_hot &hot = hot_of(p.id);
    MemoryRecord record = {};

    record.tsc = cpu->get_TSC();
    record.rip = cpu->prev_rip;
    record.cr3 = cpu->cr3;
    record.cpu = static_cast<uint8_t>(p.id);
    record.kind = kind;
    record.mode = processor_in_root(p);
    record.retired = hot.by_mode[TB_MODE_KERNEL] + hot.by_mode[TB_MODE_USER];
    return record;
}

class MemoryPart : public Part {
public:
    unsigned watch(const Processor &, bool) override { return listed_ != 0 ? TB_WATCH_LOG : 0; }
    void marker(uint32_t what, uint32_t argument) override;
    void access(Processor &p, const Access &access) override;
    void walk(Processor &p, uint64_t lin, uint64_t phy) override;
    void complete(Processor &p) override { logs_[p.id].commit(value, value_at); }
    void delivery(Processor &p) override { logs_[p.id].deliver(); }
    void vm_exit(Processor &p, uint32_t reason) override;

private:
    // MEMORY_READ, MEMORY_WRITE, MEMORY_DEVICE: what the marker has asked for, of all processors.
    uint32_t listed_ = 0;
    MemoryLog logs_[TB_MAX_CPUS];
};

void MemoryPart::marker(uint32_t what, uint32_t argument)
{
    if (what != MARKER_MEMORY_LOG)
        return;
    listed_ = argument & (MEMORY_READ | MEMORY_WRITE | MEMORY_DEVICE);
    for (unsigned n = 0; n < processor_count(); n++) {
        logs_[n].forget();
        processor_plan(processor(n));
    }
}

void MemoryPart::access(Processor &p, const Access &access)
{
    bool write = access.rw & BX_WRITE;
    bool delivering = logs_[p.id].delivering();

    // Bit 2 stands for shadow stacks.
    uint8_t how = (access.rw & BX_RW) == BX_RW ? MEMORY_READ | MEMORY_WRITE
                  : write                      ? MEMORY_WRITE
                                               : MEMORY_READ;

    bool ram = is_ram(access.phy);

    if (!(ram ? how & listed_ : listed_ & MEMORY_DEVICE) ||
        (processor_in_root(p) && (!ram || !write || access.lin == access.phy)))
        return;
    // All that a delivery reads is tables, all that it writes is its frame.
    MemoryRecord record = record_of(p, !delivering ? MEMORY_INSTRUCTION
                                       : write     ? MEMORY_EVENT
                                                   : MEMORY_SYSTEM);
    record.lin = access.lin;
    record.phy = access.phy;
    record.len = access.len;
    record.rw = how;
    logs_[p.id].access(record);
}

void MemoryPart::walk(Processor &p, uint64_t lin, uint64_t phy)
{
    if (!(listed_ & MEMORY_WRITE) || !is_ram(phy) || processor_in_root(p))
        return;
    MemoryRecord record = record_of(p, MEMORY_WALK);
    record.lin = lin;
    record.phy = phy;
    record.len = ENTRY_BYTES;
    record.rw = MEMORY_WRITE;
    record.value = value_at(phy, ENTRY_BYTES);
    memory_log_append(value, record);
}

void MemoryPart::vm_exit(Processor &p, uint32_t reason)
{
    const BX_CPU_C *cpu = BX_CPU(p.id);

    if (listed_ == 0)
        return;
    // It undoes what is at hand.
    logs_[p.id].forget();
    if ((reason & EXIT_REASON_BASIC) != VMX_VMEXIT_VMCALL)
        return;
    MemoryRecord record = record_of(p, MEMORY_VMCALL);
    record.lin = cpu->gen_reg[BX_64BIT_REG_RAX].rrx;
    record.phy = cpu->gen_reg[BX_64BIT_REG_RBX].rrx;
    record.value = cpu->gen_reg[BX_64BIT_REG_RCX].rrx;
    memory_log_append(value, record);
}

}  // namespace

Part &memory_log_part()
{
    static MemoryPart part;

    return part;
}
