/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Branch records across exits: jumps at even distances with a CPUID between each two. The records
 * must be those jumps, all of them and nothing else; IA32_DEBUGCTL is the guest's at every read.
 * SDM Vol. 3, "Last Branch, Interrupt, and Exception Recording".
 */
#include "host.h"

#include "log.h"
#include "msr.h"
#include "x86.h"

#define LBR_ENTRIES 32
#define MSR_LBR_TOS 0x1c9
#define MSR_LBR_FROM0 0x680
#define MSR_LBR_TO0 0x6c0
#define LBR_ADDRESS BITS(47, 0)
#define JUMPS "64"
#define JUMP_BYTES 2

void test_lbr(const struct job *job)
{
    uint64_t first, last, value, from[LBR_ENTRIES], to[LBR_ENTRIES], wrong = 0;

    if (!rdmsr_try(MSR_LBR_TOS, &value)) {
        tap_skip(job->name, "the processor has no such branch records");
        return;
    }
    wrmsr(MSR_LBR_SELECT, 0);
    region_mark(REGION_LBR, true);
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_LBR);
    /* Each block is xor, cpuid, jmp over a nop: of one length. */
    __asm__ volatile("lea 1f(%%rip), %0\n\t"
                     "lea 2f(%%rip), %1\n"
                     "1:\n\t"
                     ".rept " JUMPS "\n\t"
                     "xor %%eax, %%eax\n\t"
                     "cpuid\n\t"
                     "jmp 3f\n\t"
                     "nop\n"
                     "3:\n\t"
                     ".endr\n"
                     "2:"
                     : "=&r"(first), "=&r"(last) : : "rax", "rbx", "rcx", "rdx", "cc", "memory");
    uint64_t debugctl = rdmsr(IA32_DEBUGCTL);
    wrmsr(IA32_DEBUGCTL, 0);
    region_mark(REGION_LBR, false);
    uint64_t tos = rdmsr(MSR_LBR_TOS), block = (last - first) / 64;
    for (unsigned i = 0; i < LBR_ENTRIES; i++) {
        unsigned entry = (unsigned)(tos - i) % LBR_ENTRIES;
        from[i] = rdmsr(MSR_LBR_FROM0 + entry) & LBR_ADDRESS;
        to[i] = rdmsr(MSR_LBR_TO0 + entry) & LBR_ADDRESS;
    }
    for (unsigned i = 0; i < LBR_ENTRIES; i++) {
        uint64_t end = (last - i * block) & LBR_ADDRESS;
        if (from[i] == end - 1 - JUMP_BYTES && to[i] == end)
            continue;
        if (wrong++ < 4)
            tap_note("record %u: 0x%lx to 0x%lx, wanted 0x%lx to 0x%lx", i, from[i], to[i],
                     end - 1 - JUMP_BYTES, end);
    }
    if (debugctl != DEBUGCTL_LBR)
        tap_note("DEBUGCTL is 0x%lx, wanted 0x%lx", debugctl, DEBUGCTL_LBR);
    log_printf("lbr: name=%s wrong=%lu debugctl=%lu\n", job->name, wrong, debugctl);
    tap_result(wrong == 0 && debugctl == DEBUGCTL_LBR, job->name, NULL);
}
