/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A kernel with supervisor shadow stacks and indirect-branch tracking, natively and across exits:
 * S_CET, SSP and the table of interrupts' shadow stacks are the guest's at each instruction. SDM
 * Vol. 1, "Control-flow Enforcement Technology (CET)"; Vol. 3, "Shadow-Stack Memory"; Vol. 2,
 * "SETSSBSY".
 */
#include "kernel.h"

#define EXTENDED_EDX_CET_IBT BIT(20)
#define ENDBR_EN BIT(2)
#define ERROR_ENDBRANCH 3
#define VECTOR_CET 0x63 /* cet.asm has it, too */
#define TOKEN_BUSY 1
#define NMIS 20
#define WAIT 100000
#define WORDS (PAGE_SIZE / 8)
#define TABLE_SSPS 8
#define FRAME_WORDS 3 /* CS, LIP and SSP of what was interrupted */
#define NOT_CALLED 8  /* a return address */

void cet_work(void);
void cet_send_nmis(void);
extern const char cet_nmi[], cet_control_protection[], cet_interrupt[];
extern const uint64_t cet_unmarked;
extern volatile uint64_t cet_nmis, cet_nmi_ssp, cet_faults, cet_error, cet_fault_rip;

/* What the work leaves: SSP at places of its, S_CET, the table's address. */
uint64_t cet_ssp[6], cet_s_cet, cet_table;

/* The shadow stacks of the work and of NMIs. */
uint64_t cet_stack[WORDS] __attribute__((aligned(PAGE_SIZE)));
static uint64_t nmi_stack[WORDS] __attribute__((aligned(PAGE_SIZE)));
static uint64_t table[TABLE_SSPS];

void cet_send_nmis(void)
{
    for (uint64_t n = 1; n <= NMIS; n++) {
        apic_self_nmi();
        for (unsigned i = 0; i < WAIT && cet_nmis < n; i++)
            __asm__ volatile("pause");
    }
}

/* This kernel is mapped by 4 KiB pages, and all tables to themselves. */
static uint64_t *entry_of(const void *page)
{
    uint64_t entry = read_cr3();

    for (unsigned level = TABLE_LEVELS; level > 1; level--)
        entry = ((uint64_t *)(entry & PTE_ADDRESS))
            [(uint64_t)page >> (PAGE_SHIFT + TABLE_INDEX_BITS * (level - 1)) & (TABLE_ENTRIES - 1)];
    return &((uint64_t *)(entry & PTE_ADDRESS))[(uint64_t)page >> PAGE_SHIFT & (TABLE_ENTRIES - 1)];
}

/* Read-only and dirty is what makes it a shadow stack. */
void cet_protect(const void *page, bool on)
{
    uint64_t *entry = entry_of(page);

    *entry = on ? (*entry & ~PTE_RW) | PTE_D : *entry | PTE_RW;
    invlpg(page);
}

static bool expect(const char *what, uint64_t found, uint64_t wanted)
{
    if (found != wanted)
        tap_note("%s: found 0x%lx, wanted 0x%lx", what, found, wanted);
    return found == wanted;
}

bool cet_offered(const struct job *job)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_EXTENDED, 0);

    if (leaf.ecx & CET_SS && leaf.edx & EXTENDED_EDX_CET_IBT)
        return true;
    tap_skip(job->name, "CPUID shows no CET");
    return false;
}

bool cet_nmis_on(const uint64_t *token)
{
    uint64_t cr0 = read_cr0(), cr4 = read_cr4(), top = (uint64_t)&cet_stack[WORDS - 1];
    bool good = true;

    cet_stack[WORDS - 1] = top;
    cet_protect(cet_stack, true);
    table[IST_NMI] = (uint64_t)token;
    cet_nmis = cet_faults = 0;
    cpu_gate_smp(VECTOR_NMI, cet_nmi, IST_NMI);
    cpu_gate_smp(VECTOR_CP, cet_control_protection, 0);
    cpu_gate_smp(VECTOR_CET, cet_interrupt, 0);
    wrmsr(IA32_PL0_SSP, top);
    wrmsr(IA32_INTERRUPT_SSP_TABLE_ADDR, (uint64_t)table);
    write_cr0(cr0 | CR0_WP);
    write_cr4(cr4 | CR4_CET);
    cet_work();
    write_cr4(cr4);
    write_cr0(cr0);
    cpu_gate_smp(VECTOR_NMI, NULL, 0);
    cpu_gate_smp(VECTOR_CP, NULL, 0);
    cpu_gate_smp(VECTOR_CET, NULL, 0);
    for (unsigned n = 0; n < LENGTH_OF(cet_ssp); n++)
        good &= expect("SSP", cet_ssp[n], n == 1 || n == 2 ? top - NOT_CALLED : top);
    good &= expect("S_CET", cet_s_cet, SH_STK_EN | ENDBR_EN);
    good &= expect("the SSP table", cet_table, (uint64_t)table);
    good &= expect("NMIs", cet_nmis, NMIS);
    good &= expect("SSP of an NMI", cet_nmi_ssp, table[IST_NMI] - FRAME_WORDS * 8);
    good &= expect("the work's token", cet_stack[WORDS - 1], top | TOKEN_BUSY);
    good &= expect("the NMI's token", *token, table[IST_NMI]);
    good &= expect("#CP", cet_faults, 1);
    good &= expect("its error code", cet_error, ERROR_ENDBRANCH);
    good &= expect("its RIP", cet_fault_rip, cet_unmarked);
    cet_protect(cet_stack, false);
    wrmsr(IA32_INTERRUPT_SSP_TABLE_ADDR, 0);
    return good;
}

void test_smp_cet(const struct job *job)
{
    uint64_t *token = &nmi_stack[WORDS - 1];

    if (!cet_offered(job))
        return;
    *token = (uint64_t)token;
    cet_protect(nmi_stack, true);
    bool good = cet_nmis_on(token);
    cet_protect(nmi_stack, false);
    tap_result(good, job->name, NULL);
}
