/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `entry:NAME`: instructions that exit, where the guest's state is one that VM entries check, or that
 * they might: docs/entry_checks.md has the list. Each case prints what came of it, and the same has to
 * come natively and as a guest. SDM Vol. 3, "Checks on the Guest State Area".
 */
#include "kernel.h"

#include <string.h>

#include "console/log.h"
#include "smp.h"
#include "x86.h"

/* ---- outside IA-32e mode ---- */

#define FLAT_CODE_32 0x00cf9b000000ffffULL
#define CODE_16_BIT 0x00009b000000ffffULL
#define DATA_16_BIT 0x000093000000ffffULL
#define TSS_32_AVAILABLE 0x0000890000000067ULL
#define DESCRIPTOR_L BIT(53)
#define CODE_SELECTOR_LEGACY 0x48
#define EIP_LAST_2 0xfffffffeu
#define UD2 0x0f, 0x0b
#define CPUID 0x0f, 0xa2

enum mode { PROTECTED, REAL, PAE };

/* legacy.asm has the same. */
struct legacy_run {
    uint32_t mode, cr3, vector, error_code;
    uint32_t gpr[8]; /* as PUSHAD has them on the stack after the run, by their numbers before */
    uint64_t gdt[12];
};
struct legacy_page {
    uint8_t code[0x680];
    struct legacy_run run;
    uint8_t stack[0x180 - sizeof(struct legacy_run)];
    uint32_t eip, cs, eflags, esp, ss, es, ds, fs, gs; /* the frame of an IRET, and of the exception */
    uint8_t unused[0xea];
    uint8_t tried[18]; /* the code: what is from its third byte on is at a paragraph */
    uint8_t tss[0x68];
};
_Static_assert(offsetof(struct legacy_page, eip) == 0x800, "legacy.asm");
_Static_assert(offsetof(struct legacy_page, tried) % 16 == 14, "a segment's base after the first two bytes");

extern const uint8_t legacy_code[], legacy_code_end[]; /* legacy.asm */

static const struct legacy_case {
    const char *name;
    uint8_t mode;
    uint64_t code; /* its descriptor; the base is such that EIP is that of the code */
    uint32_t eip;
    uint8_t tried[16];
} legacy_cases[] = {
    {"wrap-legacy", PROTECTED, FLAT_CODE_32, EIP_LAST_2, {CPUID, UD2}},
    {"wrap-legacy-l", PROTECTED, FLAT_CODE_32 | DESCRIPTOR_L, EIP_LAST_2, {CPUID, UD2}},
};

static uint64_t with_base(uint64_t descriptor, uint32_t base)
{
    return descriptor | (uint64_t)(base & 0xffffff) << 16 | (uint64_t)(base >> 24) << 56;
}

static void run_legacy(const struct legacy_case *c)
{
    struct legacy_page *page = (struct legacy_page *)smp_page(0);
    uint32_t base = (uint32_t)(uintptr_t)page, tried = (uint32_t)(uintptr_t)page->tried;
    struct legacy_run *run = &page->run;

    memset(page, 0, sizeof(*page));
    memcpy(page, legacy_code, (size_t)(legacy_code_end - legacy_code));
    memcpy(page->tried, c->tried, sizeof(c->tried));
    run->mode = c->mode;
    run->gdt[2] = GDT_CODE_64;
    run->gdt[3] = GDT_DATA;
    run->gdt[4] = FLAT_CODE_32;
    run->gdt[5] = with_base(CODE_16_BIT, base);
    run->gdt[6] = with_base(DATA_16_BIT, base);
    run->gdt[7] = run->gdt[8] = with_base(TSS_32_AVAILABLE, (uint32_t)(uintptr_t)page->tss);
    run->gdt[9] = with_base(c->code, tried - c->eip);
    page->eip = c->eip;
    page->cs = CODE_SELECTOR_LEGACY;
    page->eflags = RFLAGS_FIXED;
    ((void (*)(void))(uintptr_t)page)();
    log_printf("entry: case=%s vector=%u error=0x%x eip=0x%x cs=0x%x eflags=0x%x\n", c->name, run->vector,
               run->error_code, page->eip, page->cs, page->eflags);
}

void test_entry(const struct job *job)
{
    for (unsigned i = 0; i < sizeof(legacy_cases) / sizeof(legacy_cases[0]); i++)
        if (strlen(job->word) == 0 || (strlen(job->word) == strlen(legacy_cases[i].name) &&
            memcmp(job->word, legacy_cases[i].name, strlen(job->word)) == 0))
            run_legacy(&legacy_cases[i]);
    tap_result(true, job->name, NULL);
}
