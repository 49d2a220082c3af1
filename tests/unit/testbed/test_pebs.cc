// SPDX-License-Identifier: BSD-2-Clause
//
// PEBS in the model: which instruction a record is of, what is in it, where it goes; and BTS. SDM
// Vol. 3, "Processor Event Based Sampling (PEBS)", "Adaptive PEBS", "BTS and DS Save Area".
#include <map>

#include "bts.h"
#include "check.h"
#include "ds.h"
#include "msr_index.h"
#include "lbr.h"
#include "pebs.h"
#include "pmu_machine.h"

namespace {

constexpr uint64_t AREA = 0x1000, BUFFER = 0x2000;
constexpr uint64_t PREC_DIST = 0x1c0;

struct Memory : DsMemory {
    std::map<uint64_t, uint64_t> words;
    uint64_t fault_at = 0;

    uint64_t read(uint64_t linear) override
    {
        if (linear == fault_at)
            throw linear;
        return words[linear];
    }
    void write(uint64_t linear, uint64_t value) override
    {
        if (linear == fault_at)
            throw linear;
        words[linear] = value;
    }
    // The four fields of a buffer for `room` bytes whose threshold is `threshold` bytes in.
    void buffer(uint64_t which, uint64_t room, uint64_t threshold)
    {
        uint64_t fields[] = {BUFFER, BUFFER, BUFFER + room, BUFFER + threshold};
        for (unsigned n = 0; n < 4; n++)
            words[AREA + which + n * DS_FIELD] = fields[n];
    }
};

// A processor that stores nothing: which instruction, counted from the start, has a record due.
struct Sampled : Machine {
    uint64_t due_at(unsigned mode, unsigned most)
    {
        for (unsigned n = 1; n <= most; n++) {
            retired[mode]++;
            pmu.look(events.instructions());
            if (pmu.pebs_due().counters != 0) {
                pmu.pebs_taken();
                return n;
            }
        }
        return 0;
    }
    void start(unsigned n, uint64_t event, uint64_t period)
    {
        pmu.write_msr(IA32_PERF_GLOBAL_CTRL, 0);
        pmu.write_msr(IA32_PERFEVTSEL0 + n, event | EVENT_USR);
        pmu.write_msr(IA32_A_PMC0 + n, COUNTER_MASK + 1 - period);
        pmu.set_pebs(bit(n));
        pmu.write_msr(IA32_PERF_GLOBAL_CTRL, bit(n));
    }
};

TEST(pebs_record_is_of_the_event_after_the_overflow)
{
    Sampled m;
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 100), 11u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 0u);
    m.pmu.pebs_reload(0, COUNTER_MASK + 1 - 10);
    CHECK_EQUAL(m.due_at(USER, 100), 11u);
}

TEST(pebs_record_waits_for_an_instruction_that_the_counter_counts)
{
    Sampled m;
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    CHECK_EQUAL(m.due_at(KERNEL, 1000), 0u);
    CHECK_EQUAL(m.due_at(USER, 10), 1u);
}

TEST(pebs_precise_distribution_is_of_the_instruction_that_overflows)
{
    Sampled m;
    m.start(1, PREC_DIST, 10);
    CHECK_EQUAL(m.due_at(USER, 100), 10u);
    m.start(0, PREC_DIST, 10);
    CHECK_EQUAL(m.due_at(USER, 100), 11u);
    m.start(1, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 100), 11u);
}

TEST(pebs_counter_that_is_stopped_or_written_while_armed)
{
    Sampled m;
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    m.pmu.write_msr(IA32_PERF_GLOBAL_CTRL, 0);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    m.pmu.write_msr(IA32_PERF_GLOBAL_CTRL, 1);
    CHECK_EQUAL(m.due_at(USER, 10), 1u);
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    m.pmu.write_msr(IA32_A_PMC0, 0);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
}

TEST(pebs_counter_that_is_disabled_while_armed_has_its_record_later)
{
    Sampled m;
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    m.pmu.set_pebs(0);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    m.pmu.set_pebs(1);
    m.pmu.pebs_rearm(1);
    CHECK_EQUAL(m.due_at(USER, 10), 1u);
}

TEST(pebs_budget_does_not_pass_the_instruction_of_the_record)
{
    Sampled m;
    m.start(0, INSTRUCTIONS, 10);
    CHECK_EQUAL(m.pmu.budget(USER, m.events.instructions()), 10u);
    CHECK_EQUAL(m.due_at(USER, 10), 0u);
    CHECK_EQUAL(m.pmu.budget(USER, m.events.instructions()), 1u);
    CHECK_EQUAL(m.pmu.budget(KERNEL, m.events.instructions()), PMU_NEVER);
}

TEST(pebs_msrs_and_capabilities_by_format)
{
    PmuShape shape;
    shape.fixed = 0xf;
    Pebs off(PEBS_OFF, shape), old(PEBS_FORMAT_SKYLAKE, shape);
    Pebs adaptive(PEBS_FORMAT_ADAPTIVE, shape);
    uint64_t value;
    CHECK_EQUAL(off.write_msr(IA32_PEBS_ENABLE, 0), MSR_ABSENT);
    CHECK_EQUAL(off.capabilities(), 0u);
    CHECK_EQUAL(old.capabilities(), uint64_t{0x3c0});
    CHECK_EQUAL(adaptive.capabilities(), uint64_t{0x44c0});
    CHECK_EQUAL(old.write_msr(IA32_PEBS_ENABLE, 0x10), MSR_FAULT);
    // Load latency of counters 0 and 1 in format 3, fixed counters 0 and 1 in format 4.
    for (Pebs *pebs : {&old, &adaptive})
        CHECK_EQUAL(pebs->write_msr(IA32_PEBS_ENABLE, 0x300000003), MSR_DONE);
    CHECK_EQUAL(old.counters(), 3u);
    CHECK_EQUAL(adaptive.counters(), uint64_t{0x300000003});
    CHECK_EQUAL(old.read_msr(MSR_PEBS_DATA_CFG, &value), MSR_ABSENT);
    CHECK_EQUAL(adaptive.write_msr(MSR_PEBS_DATA_CFG, 0x1f00000f), MSR_DONE);
    CHECK_EQUAL(adaptive.write_msr(MSR_PEBS_DATA_CFG, 0x10), MSR_FAULT);
    CHECK_EQUAL(adaptive.write_msr(MSR_PEBS_LD_LAT, 0x10000), MSR_FAULT);
    CHECK_EQUAL(adaptive.reset_offset(1), 72u);
    CHECK_EQUAL(adaptive.reset_offset(32), 128u);
}

TEST(adaptive_bits_exist_with_the_baseline_alone)
{
    Machine m;
    CHECK_EQUAL(m.pmu.write_msr(IA32_PERFEVTSEL0, PERFEVTSEL_ADAPTIVE), MSR_FAULT);
    CHECK_EQUAL(m.pmu.write_msr(IA32_FIXED_CTR_CTRL, FIXED_CTRL_ADAPTIVE << 4), MSR_FAULT);
    m.pmu.set_capabilities(PERF_CAP_PEBS_BASELINE);
    CHECK_EQUAL(m.pmu.write_msr(IA32_PERFEVTSEL0, PERFEVTSEL_ADAPTIVE), MSR_DONE);
    CHECK_EQUAL(m.pmu.write_msr(IA32_FIXED_CTR_CTRL, FIXED_CTRL_ADAPTIVE << 4), MSR_DONE);
    CHECK(m.read(IA32_PERF_CAPABILITIES) & PERF_CAP_PEBS_BASELINE);
}

PebsState numbered_state()
{
    PebsState state;
    state.eventing_ip = 0x401000;
    state.ip = 0x401002;
    state.flags = 0x246;
    for (unsigned n = 0; n < PEBS_GPRS; n++)
        state.gpr[n] = 0x100 + n;
    for (unsigned n = 0; n < PEBS_XMM_WORDS; n++)
        state.xmm[n] = 0x200 + n;
    state.tsc = 77;
    return state;
}

TEST(pebs_record_of_format_3)
{
    Pebs pebs(PEBS_FORMAT_SKYLAKE, PmuShape());
    PebsAccess access = pebs_load(0x7000, CACHE_LLC_MISS);
    std::vector<uint64_t> record = pebs.record(5, false, numbered_state(), access, Lbr());
    CHECK_EQUAL(record.size(), 25u); /* 200 bytes */
    CHECK_EQUAL(record[0], 0x246u);
    CHECK_EQUAL(record[1], 0x401002u);
    // AX, BX, CX, DX, SI, DI, BP, SP, R8 by their numbers.
    constexpr unsigned order[] = {0, 3, 1, 2, 6, 7, 5, 4, 8};
    for (unsigned n = 0; n < 9; n++)
        CHECK_EQUAL(record[2 + n], 0x100u + order[n]);
    CHECK_EQUAL(record[18], 5u);
    CHECK_EQUAL(record[19], 0x7000u);
    CHECK_EQUAL(record[20], 0xau);
    CHECK_EQUAL(record[21], access.latency);
    CHECK_EQUAL(record[22], 0x401000u);
    CHECK_EQUAL(record[24], 77u);
}

TEST(pebs_groups_of_format_4)
{
    constexpr uint64_t two_lbrs = 1ull << DATA_CFG_LBR_SHIFT;
    constexpr uint64_t groups[] = {0, DATA_CFG_MEMORY, DATA_CFG_GPRS, DATA_CFG_XMMS,
                                   DATA_CFG_LBRS | two_lbrs};
    constexpr uint64_t sizes[] = {32, 32, 144, 256, 48};
    Pebs pebs(PEBS_FORMAT_ADAPTIVE, PmuShape());
    Lbr lbr;
    lbr.record({BRANCH_REL_JMP, 1, 2, false, false, 10});
    lbr.record({BRANCH_REL_JMP, 3, 4, false, false, 30});
    uint64_t all = 0, size = 32;
    for (unsigned n = 0; n < 5; n++) {
        pebs.write_msr(MSR_PEBS_DATA_CFG, groups[n]);
        std::vector<uint64_t> record = pebs.record(1, true, numbered_state(), PebsAccess(), lbr);
        uint64_t wanted = n == 0 ? 32 : 32 + sizes[n];
        CHECK_EQUAL(record.size() * 8, wanted);
        CHECK_EQUAL(record[0], wanted << 48 | groups[n]);
        all |= groups[n];
        size = n == 0 ? size : size + sizes[n];
    }
    pebs.write_msr(MSR_PEBS_DATA_CFG, all);
    std::vector<uint64_t> record = pebs.record(1, true, numbered_state(),
                                               pebs_store(0x7008, CACHE_L1), lbr);
    CHECK_EQUAL(record[0] >> 48, size);
    CHECK_EQUAL(record[1], 0x401000u);
    CHECK_EQUAL(record[4], 0x7008u);
    CHECK_EQUAL(record[5], 1u);
    CHECK_EQUAL(record[8], 0x246u);
    CHECK_EQUAL(record[10], 0x100u);
    CHECK_EQUAL(record[26], 0x200u);
    // The newest branch record comes first.
    CHECK_EQUAL(record[58], 3u);
    CHECK_EQUAL(record[61], 1u);
    // A counter that does not ask for it has the basic group.
    CHECK_EQUAL(pebs.record(1, false, numbered_state(), PebsAccess(), lbr).size(), 4u);
}

TEST(ds_threshold_full_and_fault)
{
    Memory memory;
    std::vector<uint64_t> record = {1, 2, 3};
    memory.buffer(DS_PEBS, 3 * 24 + 8, 2 * 24);
    CHECK_EQUAL(ds_append(memory, AREA, DS_PEBS, record, false), DS_STORED);
    CHECK_EQUAL(memory.words[AREA + DS_PEBS + DS_FIELD], BUFFER + 24);
    memory.fault_at = BUFFER + 24 + 16;
    bool faulted = false;
    try {
        ds_append(memory, AREA, DS_PEBS, record, false);
    } catch (uint64_t) {
        faulted = true;
    }
    CHECK(faulted);
    CHECK_EQUAL(memory.words[AREA + DS_PEBS + DS_FIELD], BUFFER + 24);
    memory.fault_at = 0;
    CHECK_EQUAL(ds_append(memory, AREA, DS_PEBS, record, false), DS_THRESHOLD);
    CHECK_EQUAL(ds_append(memory, AREA, DS_PEBS, record, false), DS_THRESHOLD);
    CHECK_EQUAL(ds_append(memory, AREA, DS_PEBS, record, false), DS_FULL);
    CHECK_EQUAL(ds_append(memory, AREA, DS_PEBS, record, true), DS_STORED);
    CHECK_EQUAL(memory.words[AREA + DS_PEBS + DS_FIELD], BUFFER + 24);
}

TEST(bts_filters_by_privilege_and_interrupts_by_btint)
{
    constexpr uint64_t on = DEBUGCTL_TR | DEBUGCTL_BTS;
    Memory memory;
    Bts bts;
    memory.buffer(DS_BTS, 2 * 24, 2 * 24);
    CHECK(!bts_on(DEBUGCTL_TR) && !bts_on(DEBUGCTL_BTS) && bts_on(on));
    bts.branch(on | DEBUGCTL_BTS_OFF_OS, 1, 2, false, false);
    CHECK(bts.empty());
    bts.branch(on | DEBUGCTL_BTS_OFF_OS, 3, 4, true, false);
    bts.branch(on, 5, 6, false, true);
    CHECK(bts.store(memory, AREA, on | DEBUGCTL_BTINT));
    constexpr uint64_t stored[] = {3, 4, 16, 5, 6, 0};
    for (unsigned n = 0; n < 6; n++)
        CHECK_EQUAL(memory.words[BUFFER + n * 8], stored[n]);
    // Full: it stays so, or begins anew where it does not interrupt.
    bts.branch(on, 7, 8, false, false);
    CHECK(!bts.store(memory, AREA, on | DEBUGCTL_BTINT));
    CHECK_EQUAL(memory.words[BUFFER], 3u);
    bts.branch(on, 7, 8, false, false);
    CHECK(!bts.store(memory, AREA, on));
    CHECK_EQUAL(memory.words[BUFFER], 7u);
}

}  // namespace
