// SPDX-License-Identifier: BSD-2-Clause
#define NEED_CPU_REG_SHORTCUTS 1
#include "bochs.h"
#include "cpu.h"

#include "decoder/ia_opcodes.h"
#include "hot.h"
#include "knobs.h"
#include "msr_index.h"
#include "precise.h"

namespace {

constexpr unsigned ACCESS_EVENTS = 1u << EVENT_LOADS | 1u << EVENT_L1_MISSES |
                                   1u << EVENT_LOAD_LATENCY | 1u << EVENT_OFFCORE;
constexpr Bit32u FLAG_ZF = 1u << 6;
constexpr unsigned REPNE = 2;

class Linear : public DsMemory {
public:
    explicit Linear(Processor &p) : p_(p) {}
    uint64_t read(uint64_t linear) override
    {
        p_.precise.storing = true;
        uint64_t value = BX_CPU(p_.id)->system_read_qword(linear);
        p_.precise.storing = false;
        return value;
    }
    void write(uint64_t linear, uint64_t value) override
    {
        p_.precise.storing = true;
        BX_CPU(p_.id)->system_write_qword(linear, value);
        p_.precise.storing = false;
    }

private:
    Processor &p_;
};

bool compares(unsigned opcode)
{
    switch (opcode) {
    case BX_IA_REP_CMPSB_XbYb:
    case BX_IA_REP_CMPSW_XwYw:
    case BX_IA_REP_CMPSD_XdYd:
    case BX_IA_REP_CMPSQ_XqYq:
    case BX_IA_REP_SCASB_ALYb:
    case BX_IA_REP_SCASW_AXYw:
    case BX_IA_REP_SCASD_EAXYd:
    case BX_IA_REP_SCASQ_RAXYq:
        return true;
    }
    return false;
}

// Bochs leaves a REP instruction that an interrupt splits as if it were complete; RIP stays.
bool split(BX_CPU_C *cpu, bxInstruction_c *i)
{
    Bit64u rcx = cpu->gen_reg[BX_64BIT_REG_RCX].rrx;
    Bit64u count = i->as64L() ? rcx : i->as32L() ? rcx & 0xffffffff : rcx & 0xffff;

    if (!i->repUsedL() || count == 0)
        return false;
    if (!compares(i->getIaOpcode()))
        return true;
    bool equal = cpu->read_eflags() & FLAG_ZF;
    return i->repUsedL() == REPNE ? !equal : equal;
}

uint64_t linear_ip(BX_CPU_C *cpu, uint64_t rip)
{
    return cpu->long64_mode() ? rip : cpu->sregs[BX_SEG_REG_CS].cache.u.segment.base + rip;
}

PebsState state_of(Processor &p, bxInstruction_c *i)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit64u rip = cpu->gen_reg[BX_64BIT_REG_RIP].rrx;
    PebsState state;

    state.ip = linear_ip(cpu, rip);
    state.eventing_ip = linear_ip(cpu, p.precise.branched ? p.precise.branch_from
                                       : split(cpu, i)    ? rip
                                                          : rip - i->ilen());
    state.flags = cpu->read_eflags();
    for (unsigned n = 0; n < PEBS_GPRS; n++)
        state.gpr[n] = cpu->gen_reg[n].rrx;
    for (unsigned n = 0; n < PEBS_XMM_WORDS; n++)
        state.xmm[n] = cpu->vmm[n / 2].zmm64u(n % 2);
    state.tsc = cpu->get_Virtual_TSC();
    return state;
}

bool in_root(const Processor &p) { return hot_of(p.id).mode & MODE_ROOT_BIT; }

// Reset values first: a fault in any of these accesses leaves counters and index as they are.
void write_record(Processor &p, const PebsRecord &record)
{
    Linear memory(p);
    uint64_t area = p.storage[IA32_DS_AREA];
    std::vector<std::pair<unsigned, uint64_t>> resets;

    for (unsigned n = 0; n < 64; n++)
        if (record.counters >> n & 1)
            resets.push_back({n, memory.read(area + p.pebs.reset_offset(n))});
    DsResult result = ds_append(memory, area, DS_PEBS, record.words, false);
    p.ledger.stored(result == DS_FULL ? STORED_PEBS_FULL
                    : in_root(p)      ? STORED_PEBS_ROOT
                                      : STORED_PEBS);
    for (auto [n, value] : resets)
        p.pmu.pebs_reload(n, value);
    if (result == DS_THRESHOLD)
        p.pmu.raise(GLOBAL_STATUS_OVF_BUFFER, p.events.instructions());
}

void make_record(Processor &p, bxInstruction_c *i)
{
    PebsDue due = p.pmu.pebs_due();
    PebsRecord record;
    PebsAccess access;

    if (due.counters == 0)
        return;
    if (due.events & ACCESS_EVENTS)
        access = p.precise.load.linear != 0 ? p.precise.load : p.precise.store;
    else if (due.events & 1u << EVENT_STORES)
        access = p.precise.store;
    record.counters = due.counters;
    record.words = p.pebs.record(due.counters, due.adaptive, state_of(p, i), access, p.records());
    record.due = p.events.instructions() + knobs().pebs_late;
    // A fault on the way to the buffer loses the record: the counter goes on as if it had none.
    p.pmu.pebs_taken();
    if (knobs().pebs_late == 0)
        write_record(p, record);
    else
        p.precise.late.push_back(record);
}

// What is held back is for the counters that are still enabled when its time comes; one that is not
// stays armed.
void write_late(Processor &p)
{
    while (!p.precise.late.empty() && p.precise.late.front().due <= p.events.instructions()) {
        PebsRecord record = p.precise.late.front();
        p.precise.late.pop_front();
        if (record.counters & p.pebs.counters()) {
            write_record(p, record);
            continue;
        }
        p.ledger.stored(STORED_PEBS_DROPPED);
        p.pmu.pebs_rearm(record.counters);
    }
}

void store_branches(Processor &p)
{
    Linear memory(p);

    if (p.bts.empty())
        return;
    p.ledger.stored(STORED_BTS);
    if (p.bts.store(memory, p.storage[IA32_DS_AREA], p.debugctl))
        p.pmu.raise(0, p.events.instructions());
}

}  // namespace

void precise_branch(Processor &p, uint64_t from)
{
    p.precise.branched = true;
    p.precise.branch_from = from;
}

void precise_load(Processor &p, uint64_t linear, CacheOutcome outcome)
{
    PebsAccess load = pebs_load(linear, outcome);

    // Of several loads the slowest is the instruction's.
    if (load.latency >= p.precise.load.latency)
        p.precise.load = load;
}

void precise_store(Processor &p, uint64_t linear, CacheOutcome outcome)
{
    p.precise.store = pebs_store(linear, outcome);
}

void precise_retired(Processor &p, bxInstruction_c *i)
{
    write_late(p);
    store_branches(p);
    make_record(p, i);
    precise_forget(p);
}

void precise_delivered(Processor &p) { store_branches(p); }

void precise_forget(Processor &p)
{
    p.precise.storing = false;
    p.precise.branched = false;
    p.precise.load = p.precise.store = PebsAccess();
    p.bts.forget();
}

uint64_t precise_budget(const Processor &p)
{
    uint64_t now = p.events.instructions();

    if (p.precise.late.empty())
        return PMU_NEVER;
    return p.precise.late.front().due > now ? p.precise.late.front().due - now : 1;
}
