/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What system accesses to a user page may do under CR4.SMAP, access after access, because
 * the emulator remembers in its TLB what EFLAGS.AC allowed (patches/09-smap-tlb.patch); and whether
 * a write to a read-only page sets its dirty flag. SDM Vol. 3, "Determination of Access Rights".
 */
#include "emulator.h"

#define CPUID_EXTENDED_FEATURES 7
#define PLACE FREE_MEMORY

static volatile unsigned faults;
static volatile uint64_t resume;

static void on_page_fault(struct trap_frame *frame)
{
    faults++;
    frame->rip = resume;
    frame->rflags &= ~RFLAGS_AC;
}

/* Makes two accesses, because the first one leaves an entry in the TLB. Returns how many of them
 * fault. */
static unsigned accesses(bool ac, bool write)
{
    unsigned before = faults;

    for (unsigned n = 0; n < 2; n++) {
        uint8_t byte = 0;

        __asm__ volatile("lea 1f(%%rip), %%rax\n\t"
                         "mov %%rax, %1\n\t"
                         "test %2, %2\n\t"
                         "jz 2f\n\t"
                         "stac\n"
                         "2:\tmov (%4), %b0\n\t"
                         "test %3, %3\n\t"
                         "jz 1f\n\t"
                         "mov %b0, (%4)\n"
                         "1:\tclac"
                         : "+&d"(byte), "=m"(resume)
                         : "r"((unsigned)ac), "r"((unsigned)write), "r"(PLACE)
                         : "rax", "cc", "memory");
    }
    return faults - before;
}

void emulator_smap(void)
{
    uint64_t cr0 = read_cr0(), cr4 = read_cr4();
    uint64_t *entry = page_for_user(PLACE, true); /* no other page */

    check_about("SMAP, ", "");
    handle(VECTOR_PF, on_page_fault);
    write_cr0(cr0 | CR0_WP);
    write_cr4(cr4 | CR4_SMAP);
    check_equal("reads with AC = 0 that fault", accesses(false, false), 2);
    check_equal("reads with AC = 1 that fault", accesses(true, false), 0);
    check_equal("reads with AC = 0, after those, that fault", accesses(false, false), 2);
    check_equal("writes with AC = 1 that fault", accesses(true, true), 0);
    check_equal("writes with AC = 0, after those, that fault", accesses(false, true), 2);
    *entry &= ~PTE_RW;
    invlpg((const void *)PLACE);
    check_equal("reads with AC = 1 of a page that is read-only now", accesses(true, false), 0);
    check_equal("writes with AC = 1 to it that fault", accesses(true, true), 2);
    /* patches/21-cet-dirty.patch. SDM Vol. 3, "Accessed and Dirty Flags". */
    *entry &= ~PTE_D;
    write_cr0(cr0 & ~CR0_WP);
    invlpg((const void *)PLACE);
    check_equal("writes with CR0.WP = 0 to it that fault", accesses(true, true), 0);
    check_equal("its dirty flag", *entry & PTE_D,
                cpuid(CPUID_EXTENDED_FEATURES, 0).ecx & CET_SS ? 0 : PTE_D);
    write_cr4(cr4);
    write_cr0(cr0);
    *entry |= PTE_RW;
    (void)page_for_user(PLACE, false);
}
