// SPDX-License-Identifier: BSD-2-Clause
//
// The four shares of the slots, as perf and likwid work them out, from the events of Skylake-X.
#include "check.h"
#include "pmu_machine.h"
#include "topdown.h"

namespace {

constexpr uint64_t UOPS_ISSUED_ANY = 0x10e, RETIRE_SLOTS = 0x2c2, UOPS_RETIRED_ALL = 0x1c2;
constexpr uint64_t NOT_DELIVERED = 0x19c, RECOVERY_CYCLES = 0x10d;
constexpr uint64_t UNHALTED = 0x3c, REF_XCLK = 0x13c, ONE_THREAD_ACTIVE = 0x23c;
constexpr unsigned CYCLES = 1000, TAKEN = 90, TAKEN_MISSED = 20, FAR = 7, PASSED = 50,
                   PASSED_MISSED = 4;
constexpr unsigned MISSES = TAKEN_MISSED + PASSED_MISSED, REDIRECTS = TAKEN - TAKEN_MISSED + FAR;

uint64_t cmask(unsigned threshold) { return uint64_t{threshold} << PERFEVTSEL_CMASK_SHIFT; }

// What a counter makes of a run with branches of all ways to go.
uint64_t count(uint64_t event)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, event | EVENT_USR);
    m.retired[USER] += CYCLES - 10;
    m.iterations[USER] += 10;
    m.events.branches[CLASS_CONDITIONAL_TAKEN][USER] += TAKEN - 30;
    m.events.branches[CLASS_RET][USER] += 30;
    m.events.branch_misses[CLASS_CONDITIONAL_TAKEN][USER] += TAKEN_MISSED - 5;
    m.events.branch_misses[CLASS_RET][USER] += 5;
    m.events.branches[CLASS_FAR][USER] += FAR;
    m.events.branches[CLASS_CONDITIONAL_NOT_TAKEN][USER] += PASSED;
    m.events.branch_misses[CLASS_CONDITIONAL_NOT_TAKEN][USER] += PASSED_MISSED;
    m.events.branches[CLASS_JMP][KERNEL] += 500;
    m.events.branch_misses[CLASS_JMP][KERNEL] += 100;
    return m.read(IA32_PMC0);
}

TEST(slots_of_a_cycle)
{
    CHECK_EQUAL(count(UNHALTED), CYCLES);
    CHECK_EQUAL(count(RETIRE_SLOTS), CYCLES);
    CHECK_EQUAL(count(UOPS_RETIRED_ALL), CYCLES);
    CHECK_EQUAL(count(UOPS_ISSUED_ANY), CYCLES + 3 * MISSES);
    CHECK_EQUAL(count(NOT_DELIVERED), 3 * REDIRECTS);
    CHECK_EQUAL(count(RECOVERY_CYCLES), 0u);
}

// What perf divides by, where it thinks of threads of one core.
TEST(a_core_has_one_thread)
{
    CHECK_EQUAL(count(REF_XCLK), CYCLES);
    CHECK_EQUAL(count(ONE_THREAD_ACTIVE), CYCLES);
}

TEST(shares_add_up)
{
    uint64_t slots = SLOTS * count(UNHALTED), recovery = SLOTS * count(RECOVERY_CYCLES);
    uint64_t retiring = count(RETIRE_SLOTS), front_end = count(NOT_DELIVERED);
    uint64_t issued = count(UOPS_ISSUED_ANY), bad = issued - retiring + recovery;
    // The formula of the back end is the rest, which has to be what the definition says.
    uint64_t back_end = slots - front_end - issued - recovery;

    CHECK_EQUAL(back_end, 3 * (CYCLES - REDIRECTS - MISSES));
    CHECK_EQUAL(front_end + bad + retiring + back_end, slots);
}

TEST(thresholds_of_slots)
{
    CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(1)), CYCLES);
    CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(1) | PERFEVTSEL_INV), 0u);
    for (unsigned threshold : {2, 3, 4}) {
        CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(threshold)), MISSES);
        CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(threshold) | PERFEVTSEL_INV), CYCLES - MISSES);
    }
    CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(5)), 0u);
    CHECK_EQUAL(count(UOPS_ISSUED_ANY | cmask(10) | PERFEVTSEL_INV), CYCLES);
    for (unsigned threshold : {1, 2, 3}) {
        CHECK_EQUAL(count(NOT_DELIVERED | cmask(threshold)), REDIRECTS);
        CHECK_EQUAL(count(NOT_DELIVERED | cmask(threshold) | PERFEVTSEL_INV), CYCLES - REDIRECTS);
    }
    CHECK_EQUAL(count(NOT_DELIVERED | cmask(4)), 0u);
    CHECK_EQUAL(count(UOPS_RETIRED_ALL | cmask(1) | PERFEVTSEL_INV), 0u);
}

// An overflow of what an instruction has at least one of is foreseen.
TEST(issued_slots_overflow)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, UOPS_ISSUED_ANY | EVENT_USR | PERFEVTSEL_INT);
    m.write(IA32_A_PMC0, COUNTER_LIMIT - 100);
    CHECK_EQUAL(m.pmu.budget(USER, m.events.instructions()), 100u);
    CHECK_EQUAL(m.run(USER, 99), 0u);
    CHECK_EQUAL(m.run(USER, 1), 1u);
}

}  // namespace
