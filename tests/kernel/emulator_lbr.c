/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The branch records of known branches, their filter and their freeze; and that an MSR that
 * does not exist faults from the first write of IA32_LSTAR on. SDM Vol. 3, "LBR Stack".
 */
#include "emulator.h"

#define SELECT_NEAR_REL_JMP BIT(7)
#define NO_SUCH_MSR 0x1234

/* The record before the last `earlier` ones, in the block of MSRs from `first` on. */
static uint64_t record(uint32_t first, unsigned earlier)
{
    return rdmsr(first + (uint32_t)((rdmsr(MSR_LASTBRANCH_TOS) - earlier) % LBR_RECORDS));
}

/* Turns recording on with `debugctl`, executes a jump and a call, and turns recording off, with no
 * other branch. Stores the addresses of both branches and of their targets. */
static void branches(uint64_t debugctl, uint64_t addresses[4])
{
    __asm__ volatile("wrmsr\n\t"
                     "lea 1f(%%rip), %%r8\n\t"
                     "mov %%r8, 0(%2)\n\t"
                     "lea 2f(%%rip), %%r8\n\t"
                     "mov %%r8, 8(%2)\n\t"
                     "lea 3f(%%rip), %%r8\n\t"
                     "mov %%r8, 16(%2)\n\t"
                     "lea 4f(%%rip), %%r8\n\t"
                     "mov %%r8, 24(%2)\n\t"
                     "1: jmp 2f\n\t"
                     "nop\n"
                     "2: nop\n"
                     "3: call 4f\n\t"
                     "nop\n"
                     "4: add $8, %%rsp\n\t"
                     "xor %%eax, %%eax\n\t"
                     "xor %%edx, %%edx\n\t"
                     "wrmsr"
                     :
                     : "a"((uint32_t)debugctl), "d"(0), "r"(addresses), "c"(IA32_DEBUGCTL)
                     : "r8", "memory", "cc");
}

void emulator_lbr(void)
{
    uint64_t at[4] = {0}, tos;

    wrmsr(MSR_LBR_SELECT, 0);
    branches(DEBUGCTL_LBR, at);
    check_equal("last branch: from", record(MSR_LASTBRANCH_0_FROM_IP, 0), at[2]);
    check_equal("last branch: to", record(MSR_LASTBRANCH_0_TO_IP, 0), at[3]);
    check_equal("branch before: from", record(MSR_LASTBRANCH_0_FROM_IP, 1), at[0]);
    check_equal("branch before: to", record(MSR_LASTBRANCH_0_TO_IP, 1), at[1]);

    wrmsr(MSR_LBR_SELECT, SELECT_NEAR_REL_JMP);
    tos = rdmsr(MSR_LASTBRANCH_TOS);
    branches(DEBUGCTL_LBR, at);
    check_equal("jumps kept out: one record",
                (rdmsr(MSR_LASTBRANCH_TOS) + LBR_RECORDS - tos) % LBR_RECORDS, 1);
    check_equal("jumps kept out: the call's", record(MSR_LASTBRANCH_0_FROM_IP, 0), at[2]);

    wrmsr(MSR_LBR_SELECT, 0);
    tos = rdmsr(MSR_LASTBRANCH_TOS);
    wrmsr(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_LBR_FRZ);
    branches(DEBUGCTL_LBR, at);
    check_equal("frozen: no record", rdmsr(MSR_LASTBRANCH_TOS), tos);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_STATUS_LBR_FRZ);
    branches(0, at);
    check_equal("off: no record", rdmsr(MSR_LASTBRANCH_TOS), tos);

    check_that("the firmware may read an MSR that does not exist", !rdmsr_faults(NO_SUCH_MSR));
    wrmsr(IA32_LSTAR, rdmsr(IA32_LSTAR));
    check_that("an operating system may not", rdmsr_faults(NO_SUCH_MSR));
    check_that("nor write it", wrmsr_faults(NO_SUCH_MSR, 0));
}
