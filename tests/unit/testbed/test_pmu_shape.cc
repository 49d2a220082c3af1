// SPDX-License-Identifier: BSD-2-Clause
//
// A PMU with other counters than usual: what CPUID says, which MSRs there are and what they reach.
// SDM Vol. 2, "CPUID", leaves 0AH and 23H; Vol. 4, "Architectural MSRs".
#include <sstream>

#include "check.h"
#include "knobs.h"
#include "msr_index.h"
#include "pmu_cpuid.h"
#include "pmu_machine.h"

namespace {

constexpr uint32_t LAST = 0x16;

CpuidResult ask(const PmuShape &shape, uint32_t leaf, uint32_t subleaf)
{
    CpuidResult result = {};
    if (leaf == 0)
        result.eax = LAST;
    if (leaf > LAST)
        result.eax = 0xdac;  // a leaf past the end gives the last one's data
    pmu_cpuid(shape, LAST, leaf, subleaf, &result);
    return result;
}

bool there(const Machine &m, uint32_t index)
{
    uint64_t value;
    return m.pmu.read_msr(index, &value) == MSR_DONE;
}

TEST(cpuid_of_version_4)
{
    PmuShape shape;
    CHECK_EQUAL(ask(shape, 0, 0).eax, LAST);
    CHECK_EQUAL(ask(shape, 0xa, 0).eax, 0x07300404u);
    CHECK_EQUAL(ask(shape, 0xa, 0).ecx, 0u);
    CHECK_EQUAL(ask(shape, 0xa, 0).edx, 0x603u);
    CHECK_EQUAL(ask(shape, 7, 1).eax, 0u);
    CHECK_EQUAL(ask(shape, 0x23, 0).eax, 0xdacu);
}

TEST(cpuid_of_version_5_has_fixed_counters_in_ecx_alone)
{
    PmuShape shape{5, 0xff, 0x8027};
    CHECK_EQUAL(ask(shape, 0xa, 0).eax, 0x07300805u);
    CHECK_EQUAL(ask(shape, 0xa, 0).ecx, 0x8027u);
    CHECK_EQUAL(ask(shape, 0xa, 0).edx, 0x8603u);
    CHECK_EQUAL(ask(shape, 0, 0).eax, LAST);
}

TEST(cpuid_of_version_6_has_leaf_23h)
{
    PmuShape shape{6, 0xcf, 0x2b};
    CHECK_EQUAL(ask(shape, 0, 0).eax, 0x23u);
    CHECK_EQUAL(ask(shape, 7, 0).eax, 1u);
    CHECK_EQUAL(ask(shape, 7, 1).eax, 0x100u);
    CHECK_EQUAL(ask(shape, 0x17, 0).eax, 0u);
    CHECK_EQUAL(ask(shape, 0xa, 0).eax, 0x07300406u);
    CHECK_EQUAL(ask(shape, 0xa, 0).edx, 0x8602u);
    CHECK_EQUAL(ask(shape, 0x23, 0).eax, 0xbu);
    CHECK_EQUAL(ask(shape, 0x23, 1).eax, 0xcfu);
    CHECK_EQUAL(ask(shape, 0x23, 1).ebx, 0x2bu);
    CHECK_EQUAL(ask(shape, 0x23, 2).eax, 0u);
    CHECK_EQUAL(ask(shape, 0x23, 3).eax, 0x7fu);
    CHECK_EQUAL(ask(shape, 0x24, 0).eax, 0xdacu);
}

TEST(only_the_counters_of_the_shape_have_msrs)
{
    Machine m(PmuShape{5, 0xff, 0x8027});
    uint64_t value;
    for (unsigned n = 0; n < 10; n++) {
        CHECK_EQUAL(there(m, IA32_PMC0 + n), n < 8);
        CHECK_EQUAL(there(m, IA32_A_PMC0 + n), n < 8);
        CHECK_EQUAL(there(m, IA32_PERFEVTSEL0 + n), n < 8);
        CHECK_EQUAL(m.pmu.rdpmc(n, false, &value), n < 8);
    }
    for (unsigned n = 0; n < 18; n++) {
        CHECK_EQUAL(there(m, IA32_FIXED_CTR0 + n), 0x8027u >> n & 1);
        CHECK_EQUAL(m.pmu.rdpmc(1u << 30 | n, false, &value), 0x8027u >> n & 1);
    }
    CHECK(!there(m, IA32_PMC_GP0_CTR));
    CHECK(!there(m, IA32_PMC_FX0_CTR));
    CHECK(m.pmu.global_ctrl_valid(0x8027'000000ffull));
    CHECK(!m.pmu.global_ctrl_valid(bit(8)));
    CHECK(!m.pmu.global_ctrl_valid(bit(32 + 3)));
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_CTRL), 0xffu);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR_CTRL, 0xf000000000f00fffu), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR_CTRL, 0x1000), MSR_FAULT);
}

TEST(version_6_may_keep_a_counter_from_users)
{
    constexpr uint64_t general = bit(37), fixed_1 = bit(33 + 4);
    uint64_t value;
    CHECK_EQUAL(Machine(PmuShape{5, 0xf, 0x7}).write(IA32_PERFEVTSEL0, general), MSR_FAULT);
    CHECK_EQUAL(Machine(PmuShape{5, 0xf, 0x7}).write(IA32_FIXED_CTR_CTRL, fixed_1), MSR_FAULT);
    CHECK_EQUAL(ask(PmuShape{5, 0xf, 0x7}, 0x23, 0).ebx & 4, 0u);
    CHECK_EQUAL(ask(PmuShape{6, 0xf, 0x7}, 0x23, 0).ebx & 4, 4u);

    Machine m(PmuShape{6, 0xf, 0x7});
    CHECK_EQUAL(m.write(IA32_PMC_GP0_CTR + 2 * IA32_PMC_STEP, 11), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PMC_FX0_CTR + IA32_PMC_STEP, 22), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PERFEVTSEL0 + 2, general), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR_CTRL, fixed_1), MSR_DONE);
    CHECK(m.pmu.rdpmc(2, false, &value));
    CHECK_EQUAL(value, 11u);
    CHECK(m.pmu.rdpmc(2, true, &value));
    CHECK_EQUAL(value, 0u);
    CHECK(m.pmu.rdpmc(1u << 30 | 1, false, &value));
    CHECK_EQUAL(value, 22u);
    CHECK(m.pmu.rdpmc(1u << 30 | 1, true, &value));
    CHECK_EQUAL(value, 0u);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR_CTRL, 0), MSR_DONE);
    CHECK(m.pmu.rdpmc(1u << 30 | 1, true, &value));
    CHECK_EQUAL(value, 22u);
}

TEST(version_6_has_the_same_counters_under_two_numbers)
{
    Machine m(PmuShape{6, 0x80cf, 0x2b});
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, 0), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PMC_GP0_CTR + 7 * IA32_PMC_STEP, 0x123456789aull), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PMC0 + 7), 0x123456789aull);
    CHECK_EQUAL(m.read(IA32_A_PMC0 + 7), 0x123456789aull);
    CHECK_EQUAL(m.write(IA32_PMC_GP0_CTR, COUNTER_LIMIT), MSR_FAULT);
    CHECK_EQUAL(m.write(IA32_PMC_GP0_CFG_A + 6 * IA32_PMC_STEP, INSTRUCTIONS), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PERFEVTSEL0 + 6), INSTRUCTIONS);
    CHECK_EQUAL(m.write(IA32_FIXED_CTR0 + 5, 77), MSR_DONE);
    CHECK_EQUAL(m.read(IA32_PMC_FX0_CTR + 5 * IA32_PMC_STEP), 77u);
    for (unsigned n = 0; n < 20; n++) {
        CHECK_EQUAL(there(m, IA32_PMC_GP0_CTR + n * IA32_PMC_STEP), 0x80cfu >> n & 1);
        CHECK_EQUAL(there(m, IA32_PMC_FX0_CTR + n * IA32_PMC_STEP), 0x2bu >> n & 1);
        // No auto counter reload and no PEBS, so no CFG_B and CFG_C; fixed ones have no CFG_A.
        CHECK(!there(m, IA32_PMC_GP0_CTR + n * IA32_PMC_STEP + 2));
        CHECK(!there(m, IA32_PMC_GP0_CTR + n * IA32_PMC_STEP + 3));
        CHECK(!there(m, IA32_PMC_FX0_CTR + n * IA32_PMC_STEP + 1));
    }
    // The sixteenth general counter has its new numbers only.
    CHECK(!there(m, IA32_PMC0 + 15));
    CHECK(!there(m, IA32_A_PMC0 + 15));
    CHECK(!there(m, IA32_PERFEVTSEL0 + 15));
}

TEST(counters_beyond_the_usual_ones_count_and_overflow)
{
    Machine m(PmuShape{6, 0x80cf, 0x802f});
    m.write(IA32_PERF_GLOBAL_CTRL, 0);
    m.write(IA32_PMC_GP0_CFG_A + 15 * IA32_PMC_STEP, INSTRUCTIONS | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_PMC_GP0_CTR + 15 * IA32_PMC_STEP, COUNTER_LIMIT - 5);
    m.write(IA32_FIXED_CTR_CTRL,
            FIXED_CTRL_USR << 3 * FIXED_CTRL_BITS | FIXED_CTRL_USR << 5 * FIXED_CTRL_BITS);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, bit(15) | bit(35) | bit(37)), MSR_DONE);
    CHECK_EQUAL(m.run(USER, 9), 1u);
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_STATUS), bit(15));
    CHECK_EQUAL(m.read(IA32_PMC_GP0_CTR + 15 * IA32_PMC_STEP), 4u);
    CHECK_EQUAL(m.read(IA32_FIXED_CTR0 + 3), 9u);  // one slot a cycle
    CHECK_EQUAL(m.read(IA32_FIXED_CTR0 + 5), 0u);  // an event that the model does not have
    CHECK_EQUAL(m.read(IA32_PERF_GLOBAL_INUSE), bit(15) | bit(35) | bit(37) | GLOBAL_INUSE_PMI);
}

TEST(metrics_are_storage_that_a_bit_enables)
{
    PmuShape shape;
    uint64_t value;
    CHECK(!there(Machine(shape), MSR_PERF_METRICS));
    CHECK(!Machine(shape).pmu.global_ctrl_valid(bit(48)));
    shape.metrics = true;
    Machine m(shape);
    CHECK_EQUAL(m.write(MSR_PERF_METRICS, 0x04030201), MSR_DONE);
    CHECK_EQUAL(m.read(MSR_PERF_METRICS), 0x04030201u);
    CHECK(m.pmu.rdpmc(1u << 29, false, &value));
    CHECK_EQUAL(value, 0x04030201u);
    CHECK(!m.pmu.rdpmc(1u << 29 | 1, false, &value));
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, bit(48) | 1), MSR_DONE);
    CHECK_EQUAL(m.write(IA32_PERF_GLOBAL_CTRL, bit(49)), MSR_FAULT);
    CHECK(m.read(IA32_PERF_CAPABILITIES) & bit(15));
}

bool accepted(const char *text, Knobs *knobs)
{
    std::istringstream in(text);
    std::string error;
    return knobs_parse(in, knobs, &error);
}

TEST(knobs_of_the_shape)
{
    Knobs knobs;
    CHECK(accepted("pmu_fixed_mask 0x27\npmu_version 6\npmu_general_mask 0xcf\n", &knobs));
    CHECK_EQUAL(knobs.pmu_shape.version, 6u);
    CHECK_EQUAL(knobs.pmu_shape.general, 0xcfu);
    CHECK_EQUAL(knobs.pmu_shape.fixed, 0x27u);
    for (const char *bad : {"pmu_version 2", "pmu_version 7", "pmu_general_mask 0x10000",
                            "pmu_fixed_mask 0x10000", "pmu_fixed_mask 5", "pmu_general_mask 5",
                            "pmu_general_mask 0x7ff", "pmu_version 5\npmu_general_mask 5"}) {
        Knobs none;
        CHECK_EQUAL(std::string(accepted(bad, &none) ? bad : ""), "");
    }
    Knobs kinds;
    CHECK(accepted("processor 1 pmu_general_mask 0x3f\npmu_general_mask 0xff\n"
                   "processor 1 cpuid 0x1a 0 eax 2\ncpuid 7 0 edx 1\nprocessor 1 arch_lbr 8\n",
                   &kinds));
    CHECK_EQUAL(kinds.pmu_shape.general, 0xffu);
    CHECK_EQUAL(knobs_of(kinds, 0).pmu_shape.general, 0xffu);
    CHECK_EQUAL(knobs_of(kinds, 0).cpuid.size(), 1u);
    CHECK_EQUAL(knobs_of(kinds, 1).pmu_shape.general, 0x3fu);
    CHECK_EQUAL(knobs_of(kinds, 1).cpuid.size(), 2u);
    CHECK_EQUAL(knobs_of(kinds, 1).arch_lbr, 8u);
    for (const char *bad : {"processor 1", "processor x pebs 4", "processor 1 pebs 5",
                            "processor 1 pmi_skid 3", "processor 1 pmu_fixed_mask 5",
                            "processor 1 processor 1 pebs 4", "processor 1 nonsense"}) {
        Knobs none;
        CHECK_EQUAL(std::string(accepted(bad, &none) ? bad : ""), "");
    }
    Knobs masks;
    CHECK(accepted("pmu_version 5\npmu_fixed_mask 5\npmu_general_mask 0x3ff\n", &masks));
}

}  // namespace
