/* SPDX-License-Identifier: BSD-2-Clause
 * smap.c: what system accesses to a user page may do under CR4.SMAP, access after access, because
 * the emulator remembers in its TLB what EFLAGS.AC allowed (patches/09-smap-tlb.patch); and whether
 * a write to a read-only page sets its dirty flag. SDM Vol. 3, "Determination of Access Rights".
 */
#include "selftest.h"

#define CR0_WP BIT(16)
#define CR4_SMAP BIT(21)
#define RFLAGS_AC BIT(18)
#define VECTOR_PF 14
#define CPUID_EXTENDED_FEATURES 7
#define CET_SS BIT(7)
/* Memory that nothing else is in; each byte is written as it was read. */
#define PLACE (UINT64_C(64) << 20)

static volatile unsigned faults;
static volatile uint64_t resume;

__attribute__((interrupt)) static void on_page_fault(struct frame *frame, uint64_t error)
{
    (void)error;
    faults++;
    frame->rip = resume;
    frame->rflags &= ~RFLAGS_AC;
}

/* Two accesses in a row, so that the second one meets what the first has left in the TLB; how many
 * of them fault. */
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

void test_smap(void)
{
    uint64_t cr0, cr3, cr4, tables = page_tables(0);

    check_about("SMAP, ", "");
    set_gate(VECTOR_PF, on_page_fault);
    /* This page alone is the user's. */
    *large_page(PLACE) |= PAGE_USER;
    __asm__ volatile("mov %%cr0, %0; mov %%cr3, %1; mov %%cr4, %2"
                     : "=r"(cr0), "=r"(cr3), "=r"(cr4));
    __asm__ volatile("mov %0, %%cr0; mov %1, %%cr3; mov %2, %%cr4"
                     :
                     : "r"(cr0 | CR0_WP), "r"(tables), "r"(cr4 | CR4_SMAP)
                     : "memory");
    check_equal("reads with AC = 0 that fault", accesses(false, false), 2);
    check_equal("reads with AC = 1 that fault", accesses(true, false), 0);
    check_equal("reads with AC = 0, after those, that fault", accesses(false, false), 2);
    check_equal("writes with AC = 1 that fault", accesses(true, true), 0);
    check_equal("writes with AC = 0, after those, that fault", accesses(false, true), 2);
    *large_page(PLACE) &= ~PAGE_WRITABLE;
    __asm__ volatile("invlpg (%0)" : : "r"(PLACE) : "memory");
    check_equal("reads with AC = 1 of a page that is read-only now", accesses(true, false), 0);
    check_equal("writes with AC = 1 to it that fault", accesses(true, true), 2);
    /* patches/21-cet-dirty.patch. SDM Vol. 3, "Accessed and Dirty Flags". */
    *large_page(PLACE) &= ~PAGE_DIRTY;
    __asm__ volatile("mov %0, %%cr0; invlpg (%1)" : : "r"(cr0 & ~CR0_WP), "r"(PLACE) : "memory");
    check_equal("writes with CR0.WP = 0 to it that fault", accesses(true, true), 0);
    check_equal("its dirty flag", *large_page(PLACE) & PAGE_DIRTY,
                cpuid(CPUID_EXTENDED_FEATURES, 0).c & CET_SS ? 0 : PAGE_DIRTY);
    __asm__ volatile("mov %0, %%cr4; mov %1, %%cr3; mov %2, %%cr0"
                     :
                     : "r"(cr4), "r"(cr3), "r"(cr0)
                     : "memory");
}
