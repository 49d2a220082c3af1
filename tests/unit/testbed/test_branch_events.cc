// SPDX-License-Identifier: BSD-2-Clause
//
// The events of branches: which of a processor's branches each umask of BR_INST_RETIRED and
// BR_MISP_RETIRED takes. Codes: perf's table of Skylake-X (pmu-events/arch/x86/skylakex).
#include "check.h"
#include "pmu_machine.h"

namespace {

constexpr uint64_t BR_INST_RETIRED = 0xc4, BR_MISP_RETIRED = 0xc5, LBR_INSERTS = 0x20cc;

uint64_t with_umask(uint64_t event, unsigned umask)
{
    return event | uint64_t{umask} << PERFEVTSEL_UMASK_SHIFT;
}

// One branch of the first class, ten of the second and so on; as many misses, of digit 2.
uint64_t count(uint64_t event)
{
    Machine m;
    uint64_t one = 1;
    m.write(IA32_PERFEVTSEL0, event | EVENT_USR);
    for (unsigned of = 0; of < BRANCH_CLASSES; of++, one *= 10) {
        m.events.branches[of][USER] += one;
        m.events.branch_misses[of][USER] += 2 * one;
        m.events.branches[of][KERNEL] += 7 * one;
    }
    m.events.lbr_inserts[USER] += 5;
    return m.read(IA32_PMC0);
}

TEST(each_umask_of_branches_takes_its_classes)
{
    // Digits from the right: conditional taken, not taken, call, return, jump, far.
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x00)), 111111u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x01)), 11u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x02)), 100u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x04)), 111111u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x08)), 1000u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x10)), 10u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x20)), 11101u);
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x40)), 100000u);
    // Not in the table.
    CHECK_EQUAL(count(with_umask(BR_INST_RETIRED, 0x80)), 0u);
}

TEST(each_umask_of_branch_misses_takes_its_classes)
{
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x00)), 222222u);
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x01)), 22u);
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x02)), 200u);
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x04)), 222222u);
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x20)), 22202u);
    CHECK_EQUAL(count(with_umask(BR_MISP_RETIRED, 0x08)), 0u);
}

TEST(changes_of_the_branch_records_are_an_event) { CHECK_EQUAL(count(LBR_INSERTS), 5u); }

TEST(every_kind_of_branch_has_its_class)
{
    CHECK_EQUAL(branch_class(BRANCH_CONDITIONAL, true), CLASS_CONDITIONAL_TAKEN);
    CHECK_EQUAL(branch_class(BRANCH_CONDITIONAL, false), CLASS_CONDITIONAL_NOT_TAKEN);
    CHECK_EQUAL(branch_class(BRANCH_REL_CALL, true), CLASS_CALL);
    CHECK_EQUAL(branch_class(BRANCH_IND_CALL, true), CLASS_CALL);
    CHECK_EQUAL(branch_class(BRANCH_RET, true), CLASS_RET);
    CHECK_EQUAL(branch_class(BRANCH_IND_JMP, true), CLASS_JMP);
    CHECK_EQUAL(branch_class(BRANCH_REL_JMP, true), CLASS_JMP);
    CHECK_EQUAL(branch_class(BRANCH_FAR, true), CLASS_FAR);
}

}  // namespace
