/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Branch records across exits: jumps at even distances with a CPUID between each two. The records
 * must be those jumps, all of them and nothing else; IA32_DEBUGCTL, or IA32_LBR_CTL for
 * architectural records, is the guest's at every read. SDM Vol. 3, "Last Branch, Interrupt, and
 * Exception Recording", "Last Branch Records".
 */
#include "host.h"

#include "console/log.h"

#define JUMPS "64"
#define JUMP_BYTES 2

/* Either kind of records: a ring with a top, or a stack with the newest first. */
static const struct kind {
    uint32_t control, from, to;
    uint64_t on;
} ring = {IA32_DEBUGCTL, MSR_LASTBRANCH_0_FROM_IP, MSR_LASTBRANCH_0_TO_IP, DEBUGCTL_LBR},
  architectural = {IA32_LBR_CTL, IA32_LBR_FROM0, IA32_LBR_TO0, LBR_CTL_ROOT_ALL};

/* Leaf 1CH is the model's highest basic one: past it, and past the highest extended one, the
 * processor gives its data once more. SDM Vol. 2, "CPUID". Gives a bit for each leaf that has data.
 */
static unsigned past_the_highest(void)
{
    static const uint32_t leaves[] = {CPUID_LEAF_ARCH_LBR + 1,
                                      0x3f,
                                      0x40,
                                      0x3fffffff,
                                      0x50000000,
                                      0x7fffffff,
                                      0x8fffffff,
                                      0xffffffff};
    unsigned found = 0;

    for (unsigned i = 0; i < LENGTH_OF(leaves); i++) {
        struct cpuid_result leaf = cpuid(leaves[i], 0);
        found |= (unsigned)((leaf.eax | leaf.ebx | leaf.ecx | leaf.edx) != 0) << i;
    }
    return found;
}

/* `lbr:hidden`: there are no architectural records at all, by CPUID and by MSR. */
static void hidden(const struct job *job)
{
    static const uint32_t registers[] = {IA32_LBR_CTL,        IA32_LBR_DEPTH, IA32_LBR_FROM0,
                                         IA32_LBR_FROM0 + 31, IA32_LBR_TO0,   IA32_LBR_INFO0};
    struct cpuid_result leaf = cpuid(CPUID_LEAF_ARCH_LBR, 0);
    uint64_t value, seen = 0;

    for (unsigned i = 0; i < LENGTH_OF(registers); i++)
        seen += rdmsr_try(registers[i], &value) + wrmsr_try(registers[i], 0);
    bool shown = cpuid(CPUID_LEAF_EXTENDED, 0).edx & CPUID_7_EDX_ARCH_LBR ||
                 (leaf.eax | leaf.ebx | leaf.ecx) != 0;
    unsigned past = past_the_highest();
    log_printf("hidden: name=%s cpuid=%d past=%u accesses=%lu\n", job->name, shown, past, seen);
    tap_result(!shown && past == 0 && seen == 0, job->name, NULL);
}

void test_lbr(const struct job *job)
{
    uint64_t first, last, tos = 0, from[LBR_RECORDS], to[LBR_RECORDS], wrong = 0;
    bool arch = cpuid(CPUID_LEAF_EXTENDED, 0).edx & CPUID_7_EDX_ARCH_LBR;
    const struct kind *kind = arch ? &architectural : &ring;

    if (job->word[0] == 'h') {
        hidden(job);
        return;
    }
    if (!arch && !rdmsr_try(MSR_LASTBRANCH_TOS, &tos)) {
        tap_skip(job->name, "the processor has no such branch records");
        return;
    }
    if (!arch)
        wrmsr(MSR_LBR_SELECT, 0);
    region_mark(REGION_LBR, true);
    wrmsr(kind->control, kind->on);
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
                     : "=&r"(first), "=&r"(last)
                     :
                     : "rax", "rbx", "rcx", "rdx", "cc", "memory");
    uint64_t control = rdmsr(kind->control);
    wrmsr(kind->control, 0);
    region_mark(REGION_LBR, false);
    uint64_t block = (last - first) / 64;
    if (!arch)
        tos = rdmsr(MSR_LASTBRANCH_TOS);
    for (unsigned i = 0; i < LBR_RECORDS; i++) {
        unsigned entry = arch ? i : (unsigned)(tos - i) % LBR_RECORDS;
        from[i] = rdmsr(kind->from + entry) & LBR_ADDRESS;
        to[i] = rdmsr(kind->to + entry) & LBR_ADDRESS;
    }
    for (unsigned i = 0; i < LBR_RECORDS; i++) {
        uint64_t end = (last - i * block) & LBR_ADDRESS;
        if (from[i] == end - 1 - JUMP_BYTES && to[i] == end)
            continue;
        if (wrong++ < 4)
            tap_note("record %u: 0x%lx to 0x%lx, wanted 0x%lx to 0x%lx", i, from[i], to[i],
                     end - 1 - JUMP_BYTES, end);
    }
    if (control != kind->on)
        tap_note("MSR 0x%x is 0x%lx, wanted 0x%lx", kind->control, control, kind->on);
    log_printf("lbr: name=%s wrong=%lu control=%d arch=%d\n", job->name, wrong, control == kind->on,
               arch);
    tap_result(wrong == 0 && control == kind->on, job->name, NULL);
}
