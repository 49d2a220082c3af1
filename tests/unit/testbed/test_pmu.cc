// SPDX-License-Identifier: BSD-2-Clause
//
// The PMU model: counters, selectors, MSRs with their reserved bits, overflow, skid and freeze. SDM
// Vol. 3, "Performance Monitoring".
#include "check.h"
#include "msr_index.h"
#include "pmu.h"
#include "pmu_machine.h"

namespace {

constexpr uint64_t CYCLES = 0x3c;
constexpr uint64_t BRANCHES = 0xc4;

TEST(counter_wraps_at_48_bits)
{
    Counter counter;
    counter.start(0);
    counter.write(COUNTER_MASK, 100);
    CHECK_EQUAL(counter.left(100), 1u);
    CHECK(!counter.take_overflow(100));
    CHECK(counter.take_overflow(101));
    CHECK(!counter.take_overflow(101));
    CHECK_EQUAL(counter.read(101), 0u);
    CHECK_EQUAL(counter.read(105), 4u);
    counter.stop(105);
    CHECK_EQUAL(counter.read(900), 4u);
}

TEST(counter_counts_by_privilege)
{
    Machine m;
    CHECK_EQUAL(m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PERFEVTSEL0 + 1, INSTRUCTIONS | PERFEVTSEL_OS | PERFEVTSEL_EN),
                MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, 3), MSR_DONE);
    uint64_t user = m.read(IA32_PMC0), kernel = m.read(IA32_PMC0 + 1);
    m.run(USER, 7);
    m.run(KERNEL, 5);
    CHECK_EQUAL(m.read(IA32_PMC0) - user, 7u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 1) - kernel, 5u);
}

TEST(of_the_wrmsrs_that_start_and_stop_the_first_is_counted)
{
    Machine m;
    m.write(IA32_PERF_GLOBAL_CTRL, 0);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | PERFEVTSEL_OS | PERFEVTSEL_EN);
    m.write(IA32_PERFEVTSEL0 + 1, CYCLES | PERFEVTSEL_OS | PERFEVTSEL_EN);
    m.write(IA32_PERFEVTSEL0 + 2, BRANCHES | PERFEVTSEL_OS | PERFEVTSEL_EN);
    m.write(IA32_PERF_GLOBAL_CTRL, 7);
    m.run(KERNEL, 3);
    m.write(IA32_PERF_GLOBAL_CTRL, 0);
    m.run(KERNEL, 10);
    CHECK_EQUAL(m.read(IA32_PMC0), 4u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 1), 4u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 2), 0u);
}

TEST(a_wrmsr_that_writes_a_running_counter_is_counted)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | PERFEVTSEL_OS | PERFEVTSEL_EN);
    CHECK_EQUAL(m.read(IA32_PMC0), 1u);
    m.write(IA32_A_PMC0, 100);
    CHECK_EQUAL(m.read(IA32_PMC0), 101u);
    m.write(IA32_A_PMC0, COUNTER_MASK);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 1u);
    m.write(IA32_PERFEVTSEL0, 0);
    CHECK_EQUAL(m.read(IA32_PMC0), 0u);
}

// The VMRESUME that loads GLOBAL_CTRL is the host's.
TEST(a_vm_entry_that_starts_a_counter_is_not_counted)
{
    Machine m;
    m.write(IA32_PERF_GLOBAL_CTRL, 0);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | PERFEVTSEL_OS | PERFEVTSEL_EN);
    m.events.entering = MODE_ROOT_BIT;
    m.pmu.set_global_ctrl(1);
    m.events.entering = MODE_COUNT;
    m.run(MODE_ROOT_BIT, 1);
    m.run(KERNEL, 3);
    CHECK_EQUAL(m.read(IA32_PMC0), 3u);
}

TEST(legacy_write_sign_extends_full_width_does_not)
{
    Machine m;
    CHECK_EQUAL(m.write(IA32_PMC0, 0x80000000), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PMC0), 0xffff80000000u);
    CHECK_EQUAL(m.write(IA32_A_PMC0, 0x80000000), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PMC0), 0x80000000u);
    CHECK_EQUAL(m.write(IA32_A_PMC0, COUNTER_LIMIT), MSR_FAULT);
}

TEST(reserved_bits_fault)
{
    Machine m;
    CHECK_EQUAL(m.write(IA32_PERFEVTSEL0, bit(32)), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR_CTRL, bit(12)), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, bit(4)), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, bit(35)), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS, 0), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_COND_CHGD), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PERF_CAPABILITIES, 0), MSR_FAULT);
    uint64_t value;
    CHECK_EQUAL(m.pmu.read_msr(IA32_PMC0 + 4, &value), MSR_ABSENT);
    CHECK_EQUAL(m.pmu.read_msr(IA32_FIXED_CTR0 + 3, &value), MSR_ABSENT);
}

TEST(rdpmc_knows_its_counters)
{
    Machine m;
    uint64_t value;
    m.write(IA32_A_PMC0 + 3, 33);
    m.write(IA32_FIXED_CTR0 + 2, 22);
    CHECK(m.pmu.rdpmc(3, false, &value));
    CHECK_EQUAL(value, 33u);
    CHECK(m.pmu.rdpmc(1u << 30 | 2, false, &value));
    CHECK_EQUAL(value, 22u);
    CHECK(!m.pmu.rdpmc(4, false, &value));
    CHECK(!m.pmu.rdpmc(1u << 30 | 3, false, &value));
    CHECK(!m.pmu.rdpmc(1u << 31, false, &value));
}

TEST(overflow_sets_status_and_raises_one_pmi)
{
    Machine m;
    m.write(IA32_PERF_GLOBAL_CTRL, 0);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_A_PMC0, COUNTER_LIMIT - 10);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    CHECK_EQUAL(m.pmu.budget(USER, m.events.instructions()), 10u);
    CHECK_EQUAL(m.pmu.budget(KERNEL, m.events.instructions()), PMU_NEVER);
    CHECK_EQUAL(m.run(USER, 9), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 0u);
    CHECK_EQUAL(m.run(USER, 1), 1u);
    CHECK_EQUAL(m.run(USER, 100), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 1u);
    m.write(IA32_PERF_GLOBAL_STATUS_RESET, 1);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 0u);
}

TEST(overflow_without_int_is_silent)
{
    Machine m;
    m.write(IA32_FIXED_CTR_CTRL, FIXED_CTRL_USR);
    m.write(IA32_FIXED_CTR0, COUNTER_MASK);
    m.write(IA32_PERF_GLOBAL_CTRL, bit(32));
    CHECK_EQUAL(m.run(USER, 5), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), bit(32));
    CHECK_EQUAL(m.read(IA32_FIXED_CTR0), 4u);
}

TEST(a_pmi_may_show_another_bit_alone)
{
    Machine m;
    m.pmu.set_overflow_status(GLOBAL_STATUS_OVF_BUFFER);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_PERFEVTSEL0 + 1, INSTRUCTIONS | EVENT_USR);
    m.write(IA32_PERF_GLOBAL_CTRL, 3);
    m.write(IA32_A_PMC0, COUNTER_LIMIT - 10);
    CHECK_EQUAL(m.run(USER, 10), 1u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), GLOBAL_STATUS_OVF_BUFFER);
    // One that does not interrupt has its own.
    m.write(IA32_A_PMC0 + 1, COUNTER_MASK);
    CHECK_EQUAL(m.run(USER, 1), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), GLOBAL_STATUS_OVF_BUFFER | 2);
}

TEST(a_pmi_may_be_of_no_counter)
{
    Machine m;
    m.pmu.raise(GLOBAL_STATUS_TRACE_TOPA_PMI, m.events.instructions() + 1);
    CHECK_EQUAL(m.run(KERNEL, 1), 1u);
    CHECK_EQUAL(m.run(KERNEL, 5), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), GLOBAL_STATUS_TRACE_TOPA_PMI);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_SET, PMU_OTHER_PMIS), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), PMU_OTHER_PMIS);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_RESET, PMU_OTHER_PMIS), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 0u);
}

TEST(skid_delays_the_pmi_in_any_mode)
{
    Machine m;
    m.pmu.set_skid(3);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_A_PMC0, COUNTER_MASK);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    CHECK_EQUAL(m.run(USER, 1), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 1u);
    CHECK_EQUAL(m.run(KERNEL, 2), 0u);
    CHECK_EQUAL(m.run(KERNEL, 1), 1u);
}

TEST(skids_in_turn)
{
    Machine m;
    m.pmu.sweep_skid(3);
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    for (unsigned skid : {0, 1, 2, 0}) {
        m.write(IA32_A_PMC0, COUNTER_MASK);
        CHECK_EQUAL(m.run(USER, 1), skid == 0 ? 1u : 0u);
        for (unsigned n = 1; n <= skid; n++)
            CHECK_EQUAL(m.run(KERNEL, 1), n == skid ? 1u : 0u);
    }
}

TEST(overflow_sets_another_status_bit)
{
    for (uint64_t other : {GLOBAL_STATUS_OVF_BUFFER, uint64_t{0}}) {
        Machine m;
        m.pmu.set_overflow_status(other);
        m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
        m.write(IA32_A_PMC0, COUNTER_MASK);
        m.write(IA32_PERF_GLOBAL_CTRL, 1);
        CHECK_EQUAL(m.run(USER, 1), 1u);
        CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), other);
    }
}

TEST(freeze_stops_until_the_status_is_reset)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    m.run(USER, 4);
    m.pmu.on_pmi(DEBUGCTL_FREEZE_PERFMON_ON_PMI | DEBUGCTL_FREEZE_LBRS_ON_PMI);
    CHECK(m.pmu.lbr_frozen());
    m.run(USER, 4);
    CHECK_EQUAL(m.read(IA32_PMC0), 4u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_CTRL), 1u);
    m.write(IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_STATUS_CTR_FRZ | GLOBAL_STATUS_LBR_FRZ);
    m.run(USER, 4);
    CHECK_EQUAL(m.read(IA32_PMC0), 8u);
    CHECK(!m.pmu.lbr_frozen());
}

TEST(version_3_freezes_by_what_enables)
{
    Machine m(PmuShape{3, 0xf, 0x7});
    uint64_t both = DEBUGCTL_FREEZE_PERFMON_ON_PMI | DEBUGCTL_FREEZE_LBRS_ON_PMI | DEBUGCTL_LBR;
    m.write(IA32_PERFEVTSEL0, INSTRUCTIONS | EVENT_USR);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    CHECK_EQUAL(m.pmu.on_pmi(DEBUGCTL_LBR), DEBUGCTL_LBR);
    m.run(USER, 4);
    CHECK_EQUAL(m.pmu.on_pmi(both), both & ~DEBUGCTL_LBR);
    m.run(USER, 4);
    CHECK_EQUAL(m.read(IA32_PMC0), 4u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_CTRL), 0u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 0u);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_SET, 1), MSR_ABSENT);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_STATUS_CTR_FRZ), MSR_FAULT);
}

TEST(status_bits_are_set_and_reset_one_by_one)
{
    Machine m;
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_SET, 3 | bit(33)), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_SET, bit(2)), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 7 | bit(33));
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_STATUS_RESET, 2), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), 5 | bit(33));
}

TEST(cycles_count_rep_iterations)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, CYCLES | EVENT_USR);
    m.write(IA32_PERF_GLOBAL_CTRL, 1);
    m.iterations[USER] += 9;
    m.run(USER, 1);
    CHECK_EQUAL(m.read(IA32_PMC0), 10u);
}

TEST(threshold_and_inversion)
{
    Machine m;
    uint64_t one = uint64_t{1} << PERFEVTSEL_CMASK_SHIFT;
    m.write(IA32_PERFEVTSEL0, BRANCHES | EVENT_USR | one);
    m.write(IA32_PERFEVTSEL0 + 1, BRANCHES | EVENT_USR | one | PERFEVTSEL_INV);
    m.write(IA32_PERFEVTSEL0 + 2, BRANCHES | EVENT_USR | one * 2);
    m.write(IA32_PERFEVTSEL0 + 3, BRANCHES | EVENT_USR | one * 2 | PERFEVTSEL_INV);
    m.write(IA32_PERF_GLOBAL_CTRL, 0xf);
    m.events.branches[CLASS_CALL][USER] += 3;
    m.run(USER, 10);
    CHECK_EQUAL(m.read(IA32_PMC0), 3u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 1), 7u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 2), 0u);
    CHECK_EQUAL(m.read(IA32_PMC0 + 3), 10u);
}

TEST(in_use_names_what_is_programmed)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0 + 2, INSTRUCTIONS);
    m.write(IA32_FIXED_CTR_CTRL, (FIXED_CTRL_OS | FIXED_CTRL_PMI) << FIXED_CTRL_BITS);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_INUSE), bit(2) | bit(33) | GLOBAL_INUSE_PMI);
}

}  // namespace
