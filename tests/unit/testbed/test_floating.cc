// SPDX-License-Identifier: BSD-2-Clause
//
// Which opcodes are floating-point arithmetic, and the events that PAPI's presets of Skylake-X are
// made of. Codes: libpfm4's table of Skylake-X; what counts: perf's descriptions of FP_ARITH.
#include "check.h"
#include "pmu_machine.h"

namespace {

constexpr uint64_t L2_RQSTS = 0x24, OFFCORE_REQUESTS = 0xb0, HW_INTERRUPTS = 0xcb;
constexpr uint64_t FP_ARITH = 0xc7, MEM_LOAD_RETIRED = 0xd1;

// What the opcode adds to which class, as "counts * 10 + class"; 0: nothing.
unsigned of(const char *name, unsigned length = 0)
{
    FpOpcode opcode = fp_opcode(name);

    return opcode.counts == 0 ? 0 : opcode.counts * 10u + fp_class(opcode, length);
}

TEST(arithmetic_is_told_by_its_name)
{
    CHECK_EQUAL(of("ADDSD_VsdWsd"), 10u + FP_SCALAR_DOUBLE);
    CHECK_EQUAL(of("MULSS_VssWss"), 10u + FP_SCALAR_SINGLE);
    CHECK_EQUAL(of("SQRTPD_VpdWpd"), 10u + FP_128_DOUBLE);
    CHECK_EQUAL(of("RSQRTPS_VpsWps"), 10u + FP_128_SINGLE);
    CHECK_EQUAL(of("VDIVPD_VpdHpdWpd", 1), 10u + FP_128_DOUBLE);
    CHECK_EQUAL(of("VADDSUBPS_VpsHpsWps", 2), 10u + FP_256_SINGLE);
    CHECK_EQUAL(of("VMAXPD_VpdHpdWpd", 2), 10u + FP_256_DOUBLE);
    CHECK_EQUAL(of("EVEX_VADDPD_VpdHpdWpd_Kmask", 4), 10u + FP_512_DOUBLE);
    CHECK_EQUAL(of("EVEX_VRCP14PS_VpsWps_Kmask", 4), 10u + FP_512_SINGLE);
    // The length of a vector that a scalar has no use for.
    CHECK_EQUAL(of("VADDSD_VsdHpdWsd", 2), 10u + FP_SCALAR_DOUBLE);
}

TEST(two_operations_in_one_count_twice)
{
    CHECK_EQUAL(of("VFMADD132PD_VpdHpdWpd", 2), 20u + FP_256_DOUBLE);
    CHECK_EQUAL(of("VFNMSUB231SS_VssHssWss", 1), 20u + FP_SCALAR_SINGLE);
    CHECK_EQUAL(of("VFMADDSUB213PS_VpsHpsWps", 1), 20u + FP_128_SINGLE);
    CHECK_EQUAL(of("DPPD_VpdWpdIb"), 20u + FP_128_DOUBLE);
}

TEST(other_instructions_are_no_arithmetic)
{
    for (const char *name :
         {"MOVSD_VsdWsd", "CMPPS_VpsWpsIb", "UCOMISD_VsdWsd", "CVTSI2SD_VsdEd", "ROUNDSD_VsdWsdIb",
          "ANDPD_VpdWpd", "PMAXSD_VdqWdq", "REP_MOVSD_YdXd", "PADDD_VdqWdq", "MOVSS_VssWss",
          "FADD_ST0_STj", "UNPCKLPS_VpsWdq", "SHUFPD_VpdWpdIb", "NOP", "V128_VPMINSD_VdqHdqWdq"})
        CHECK_EQUAL(of(name), 0u);
}

// Digits from the right are the kinds, in their order.
uint64_t count(uint64_t event, unsigned umask)
{
    Machine m;
    uint64_t one = 1;

    m.write(IA32_PERFEVTSEL0, event | uint64_t{umask} << PERFEVTSEL_UMASK_SHIFT | EVENT_USR);
    for (unsigned kind = 0; kind < FP_CLASSES; kind++, one *= 10) {
        m.events.fp[kind][USER] += one;
        m.events.fp[kind][KERNEL] += 7 * one;
        if (kind < OFFCORE_KINDS)
            m.events.offcore[kind][USER] += one;
        if (kind < LOAD_SOURCES)
            m.events.load_sources[kind][USER] += one;
    }
    m.events.interrupts[USER] += 5;
    return m.read(IA32_PMC0);
}

TEST(each_umask_of_arithmetic_takes_its_classes)
{
    CHECK_EQUAL(count(FP_ARITH, 0x01), 1u);
    CHECK_EQUAL(count(FP_ARITH, 0x02), 10u);
    CHECK_EQUAL(count(FP_ARITH, 0x20), 100000u);
    CHECK_EQUAL(count(FP_ARITH, 0x80), 10000000u);
    CHECK_EQUAL(count(FP_ARITH, 0x15), 10101u);
}

TEST(each_umask_of_requests_takes_its_kinds)
{
    // L2 read hit, own hit, LLC read hit, read miss, own hit, own miss.
    CHECK_EQUAL(count(L2_RQSTS, 0x21), 1100u);
    CHECK_EQUAL(count(L2_RQSTS, 0x22), 110000u);
    CHECK_EQUAL(count(L2_RQSTS, 0x27), 111100u);
    CHECK_EQUAL(count(L2_RQSTS, 0x42), 10u);
    CHECK_EQUAL(count(L2_RQSTS, 0xc1), 1u);
    CHECK_EQUAL(count(L2_RQSTS, 0xe1), 1101u);
    CHECK_EQUAL(count(L2_RQSTS, 0xe2), 110010u);
    CHECK_EQUAL(count(L2_RQSTS, 0xe7), 111111u);
    // Code and prefetches: the model has none.
    CHECK_EQUAL(count(L2_RQSTS, 0xe4), 0u);
    CHECK_EQUAL(count(L2_RQSTS, 0x38), 0u);
    CHECK_EQUAL(count(OFFCORE_REQUESTS, 0x01), 1100u);
    CHECK_EQUAL(count(OFFCORE_REQUESTS, 0x04), 110000u);
    CHECK_EQUAL(count(OFFCORE_REQUESTS, 0x10), 1000u);
    CHECK_EQUAL(count(OFFCORE_REQUESTS, 0x80), 111100u);
}

TEST(each_umask_of_loads_takes_its_sources)
{
    // L1, L2, LLC, memory.
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x01), 1u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x02), 10u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x04), 100u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x08), 1110u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x10), 1100u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x20), 1000u);
    CHECK_EQUAL(count(MEM_LOAD_RETIRED, 0x40), 0u);
}

TEST(external_interrupts_are_an_event) { CHECK_EQUAL(count(HW_INTERRUPTS, 0x01), 5u); }

}  // namespace
