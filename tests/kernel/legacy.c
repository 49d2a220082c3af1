/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What code outside IA-32e mode finds: descriptors, a TSS with a bitmap of ports, PDPTEs, and the
 * frame of the IRET that begins it. All of it is in pages below 1 MiB, where legacy.asm works. SDM
 * Vol. 3, "Segment Descriptors", "32-Bit Task-State Segment (TSS)", "PAE Paging".
 */
#include "legacy.h"

#include <string.h>

#include "kernel.h"
#include "smp.h"

#define FLAT_CODE_32 0x00cf9b000000ffffULL
#define FLAT_CODE_16 0x008f9b000000ffffULL
#define FLAT_DATA_16 0x008f93000000ffffULL
#define TSS_32 0x0000890000000077ULL
#define TRIED_CODE 0x48
#define TRIED_DATA 0x50
#define CR0_MP BIT(1)
#define PDPTES 4
#define STACK_AT 0x7f0 /* of CPL 3, and of exceptions there */

/* legacy.asm has the same. */
struct run {
    uint32_t mode, cr3, vector, error_code, task_gates;
    uint32_t gpr[8]; /* by their numbers before, as PUSHAD has them on the stack after the run */
    uint64_t gdt[12] __attribute__((packed));
};
struct page {
    uint8_t code[0x680];
    struct run run;
    uint8_t stack[0x180 - sizeof(struct run)];
    uint32_t eip, cs, eflags, esp, ss, es, ds, fs,
        gs; /* the frame of an IRET, and of the exception */
    uint8_t unused[0xea];
    uint8_t tried[26]; /* from its third byte on it is at a paragraph */
    struct {
        uint32_t link, esp0, ss0, unused[22];
        uint16_t trap, io_map_base;
        uint8_t io_map[16];
    } tss;
};
_Static_assert(offsetof(struct page, eip) == 0x800, "legacy.asm");
_Static_assert(offsetof(struct page, tried) % 16 == 14, "a paragraph after the first two bytes");

extern const uint8_t legacy_code[], legacy_code_end[]; /* legacy.asm */

static uint64_t with_base(uint64_t descriptor, uint64_t base)
{
    return descriptor | (base & 0xffffff) << 16 | (base >> 24 & 0xff) << 56;
}

/* The first GiB mapped to itself, by PAE paging. */
static uint32_t map_low(void)
{
    uint64_t *pdpt = (uint64_t *)smp_page(1), *directory = (uint64_t *)smp_page(2);

    memset(pdpt, 0, PDPTES * sizeof(*pdpt));
    pdpt[0] = (uintptr_t)directory | PTE_P;
    for (uint64_t n = 0; n < TABLE_ENTRIES; n++)
        directory[n] = n * SIZE_2M | PTE_P | PTE_RW | PTE_US | PTE_PS;
    return (uint32_t)(uintptr_t)pdpt;
}

/* What a DI of 16 bits reaches with a base of 0. */
static uint32_t page_by_di(void)
{
    uint64_t page = smp_page(0);

    for (unsigned n = 1; page > UINT16_MAX; n++)
        page = smp_page(n);
    if (page == 0)
        tap_bail_out("there is no page below 64 KiB");
    return (uint32_t)page;
}

static void set_frame(struct page *page, const struct legacy_case *c, enum legacy_mode mode)
{
    uint32_t paragraph = (uint32_t)(uintptr_t)page >> 4, tried = (uint32_t)(uintptr_t)page->tried;

    page->eflags = RFLAGS_FIXED | c->eflags;
    page->eip = c->flat ? tried : c->eip != 0 ? c->eip : (uint32_t)offsetof(struct page, tried);
    page->cs = mode != REAL && mode != V86 ? TRIED_CODE
               : c->eip == 0               ? paragraph
                                           : (tried - c->eip) >> 4;
    if (mode == V86 || mode == USER) {
        page->eflags |= (mode == V86 ? RFLAGS_VM : 0) | RFLAGS_IOPL;
        page->cs |= mode == USER ? 3 : 0;
        page->esp = STACK_AT;
        page->ss = page->es = page->ds = page->fs = page->gs = mode == V86 ? paragraph
                                                                           : TRIED_DATA | 3;
    }
}

static void set_run(struct page *page, const struct legacy_case *c, enum legacy_mode mode)
{
    uint64_t base = (uintptr_t)page, dpl = mode == USER ? DPL_3 : 0;
    struct run *run = &page->run;

    run->mode = mode <= PAE ? mode : PROTECTED;
    run->cr3 = map_low();
    run->task_gates = c->task_gates;
    run->gdt[2] = GDT_CODE_64;
    run->gdt[3] = GDT_DATA;
    run->gdt[4] = FLAT_CODE_32;
    run->gdt[5] = with_base(FLAT_CODE_16 ^ (mode == REAL ? c->code : 0), base);
    run->gdt[6] = with_base(FLAT_DATA_16, base);
    run->gdt[7] = with_base(TSS_32, (uintptr_t)&page->tss) ^ c->task;
    run->gdt[LEGACY_TASK / 8] = with_base(TSS_32, (uintptr_t)&page->tss);
    run->gdt[9] = with_base(FLAT_CODE_32 ^ dpl ^ c->code,
                            c->flat       ? 0
                            : c->eip != 0 ? (uint32_t)((uintptr_t)page->tried - c->eip)
                                          : base);
    run->gdt[10] = GDT_DATA ^ dpl ^ c->data;
    run->gpr[0] = TRIED_DATA;
    run->gpr[1] = c->ecx;
    run->gpr[3] = run->cr3;
    run->gpr[5] = c->ebp;
    run->gpr[7] = page_by_di();
    page->tss.esp0 = (uint32_t)base + STACK_AT;
    page->tss.ss0 = DATA_SELECTOR;
    page->tss.io_map_base = offsetof(__typeof__(page->tss), io_map);
    page->tss.io_map[sizeof(page->tss.io_map) - 1] = 0xff;
}

struct legacy_result legacy_execute(const struct legacy_case *c, enum legacy_mode mode)
{
    struct page *page = (struct page *)smp_page(0);
    uint64_t cr0 = read_cr0(), cr4 = read_cr4();

    memset(page, 0, sizeof(*page));
    memcpy(page, legacy_code, (size_t)(legacy_code_end - legacy_code));
    memcpy(page->tried, c->tried, sizeof(c->tried));
    set_run(page, c, mode);
    set_frame(page, c, mode);
    /* Whoever started the kernel may have left these bits either way, and flags show it. */
    write_cr0((cr0 | CR0_NE) & ~(CR0_MP | CR0_EM | CR0_TS));
    write_cr4(cr4 | CR4_PCE);
    ((void (*)(void))(uintptr_t)page)();
    write_cr4(cr4);
    write_cr0(cr0);
    return (struct legacy_result){page->run.vector, page->run.error_code, page->eip,       page->cs,
                                  page->eflags,     page->run.gpr[0],     page->run.gpr[6]};
}
