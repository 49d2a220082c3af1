/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `entry`: exits where the guest's state is one that VM entries check; docs/entries.md has each
 * check. A case is some bytes of code that an exception ends. It prints which one and where, with
 * registers, and the same has to come natively and as a guest. SDM Vol. 3, "Checks on the Guest
 * State Area".
 */
#include "kernel.h"

#include <string.h>

#include "console/log.h"
#include "fuzz.h"
#include "legacy.h"

#define UD2 0x0f, 0x0b
#define CPUID 0x0f, 0xa2

/* ---- outside IA-32e mode ---- */

#define EIP_LAST_2 0xfffffffeu
#define CONFORMING BIT(42)
#define EXPAND_DOWN (BIT(42) | 0x000f00000000ffffULL) /* from its limit, 4 KiB, on */
#define EXECUTABLE BIT(43)
#define ACCESSED BIT(40)
#define TSS_16_BIT BIT(43)
#define OF(mode) (1u << (mode))
#define IN_ALL (OF(PROTECTED) | OF(REAL) | OF(PAE) | OF(V86) | OF(USER))
#define IN_RING_0 (OF(PROTECTED) | OF(REAL) | OF(PAE))
#define MOV_TO_SS 0x8e, 0xd0 /* from AX */
#define MOV_TO_DS 0x8e, 0xd8
#define FROM_CR0 0x0f, 0x20, 0xc0 /* to EAX */
#define TO_CR0 0x0f, 0x22, 0xc0
#define XOR_NE 0x34, 0x20 /* a bit of VMX's own: so the MOV exits */
#define BTS_PG 0x0f, 0xba, 0xe8, 31
#define SET_LME 0x0f, 0x32, 0x80, 0xcc, 0x01, 0x0f, 0x30     /* RDMSR; OR AH, 1; WRMSR */
#define SPOIL_PDPTE 0xc7, 0x43, 0x08, 0xff, 0xff, 0xff, 0xff /* MOV DWORD [EBX + 8], -1 */

static const struct legacy_case legacy_cases[] = {
    {.name = "cpuid", IN_ALL, {CPUID, UD2}},
    {.name = "cpuid-l", IN_ALL, {CPUID, UD2}, .code = DESCRIPTOR_L},
    {.name = "vmread", IN_ALL, {0x0f, 0x78, 0xc0, UD2}},
    {.name = "in-61", IN_ALL, {0xe4, 0x61, UD2}},
    {.name = "rdmsr", IN_ALL, {0x0f, 0x32, UD2}, .ecx = 0x40000000},
    {.name = "wrmsr", IN_ALL, {0x0f, 0x30, UD2}, .ecx = 0x40000000},
    {.name = "rdpmc", IN_ALL, {0x0f, 0x33, UD2}, .ecx = 0x7777},
    {.name = "xsetbv", IN_ALL, {0x0f, 0x01, 0xd1, UD2}, .ecx = 1},
    {.name = "invd", IN_ALL, {0x0f, 0x08, UD2}},
    {.name = "step", IN_ALL, {CPUID, UD2}, .eflags = RFLAGS_TF},
    {.name = "step-shadow", OF(PROTECTED), {MOV_TO_SS, CPUID, UD2}, .eflags = RFLAGS_TF},
    {.name = "wrap", IN_RING_0, {CPUID, UD2}, .eip = EIP_LAST_2},
    {.name = "wrap-l", IN_RING_0, {CPUID, UD2}, .eip = EIP_LAST_2, .code = DESCRIPTOR_L},
    {.name = "code-conforming", OF(PROTECTED) | OF(PAE), {CPUID, UD2}, .code = CONFORMING},
    {.name = "code-conforming-0", OF(USER), {CPUID, UD2}, .code = CONFORMING | DPL_3},
    {.name = "ss-expand-down", OF(PROTECTED), {MOV_TO_SS, CPUID, UD2}, .data = EXPAND_DOWN},
    {.name = "ds-not-accessed", OF(PROTECTED), {MOV_TO_DS, CPUID, UD2}, .data = ACCESSED},
    {.name = "ds-code", OF(PROTECTED), {MOV_TO_DS, CPUID, UD2}, .data = EXECUTABLE},
    {.name = "ds-null", OF(PROTECTED) | OF(USER), {0x31, 0xc0, MOV_TO_DS, CPUID, UD2}},
    {.name = "mwait", OF(V86) | OF(USER), {0x0f, 0x01, 0xc9, UD2}},
    {.name = "tr-16", OF(PROTECTED), {CPUID, UD2}, .task = TSS_16_BIT},
    {.name = "cr0", IN_ALL, {FROM_CR0, XOR_NE, TO_CR0, UD2}},
    {.name = "cr0-pg", OF(REAL), {FROM_CR0, 0x66, BTS_PG, XOR_NE, TO_CR0, UD2}},
    {.name = "tr-16-long",
     OF(PROTECTED),
     {SET_LME, FROM_CR0, BTS_PG, XOR_NE, TO_CR0, UD2},
     .ecx = IA32_EFER,
     .task = TSS_16_BIT},
    {.name = "cs-l-long",
     OF(PROTECTED),
     {SET_LME, FROM_CR0, BTS_PG, XOR_NE, TO_CR0, UD2},
     .ecx = IA32_EFER,
     .code = DESCRIPTOR_L},
    /* With CR4.OSXSAVE changed: so the MOV exits. */
    {.name = "cr4-pcide",
     OF(PROTECTED),
     {0x0f, 0x20, 0xe0, 0x0f, 0xba, 0xe8, 17, 0x0f, 0xba, 0xf8, 18, 0x0f, 0x22, 0xe0, UD2}},
    /* Eight bytes by CX and DI: the upper halves of ECX and EDI do not count. */
    {.name = "stos-16-l",
     OF(PROTECTED),
     {0xf3, 0xaa, UD2},
     .ecx = 0x50008,
     .flat = true,
     .code = DESCRIPTOR_D | DESCRIPTOR_L},
    {.name = "pdpte", OF(PAE), {SPOIL_PDPTE, CPUID, UD2}},
    {.name = "pdpte-loaded", OF(PAE), {SPOIL_PDPTE, 0x0f, 0x20, 0xd8, 0x0f, 0x22, 0xd8, UD2}},
};

static void run_legacy(const struct legacy_case *c, enum legacy_mode mode)
{
    static const char *const names[] = {"protected", "real", "pae", "v86", "user"};
    struct legacy_result r = legacy_execute(c, mode);

    log_printf(
        "entry: case=%s mode=%s vector=%u error=0x%x at=0x%x:0x%x eflags=0x%x ecx=0x%x edi=0x%x\n",
        c->name, names[mode], r.vector, r.error_code, r.cs, r.eip, r.eflags, r.ecx, r.edi);
}

/* ---- in 64-bit mode ---- */

#define IA32_BNDCFGS 0xd90
#define LDT 0x0000820000000067ULL
#define OWN_SYSTEM 0x20 /* the selector of an LDT, or a TSS */
#define CODE_RING_1 8   /* its place in the GDT is free */
#define DPL_1 BIT(45)
#define LAST_ENTRY (TABLE_ENTRIES - 1)
#define LOWER_HALF_PML4 255
#define BITMAP_ABOVE_4_GIB BIT(40) /* of a legacy code page bitmap, which stays off */

static uint64_t last_tables[3][TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint64_t last_page[TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint64_t stack_before;

/* The last page of the lower half of all addresses. */
static uint64_t map_last(uint64_t flags)
{
    uint64_t *table = (uint64_t *)(read_cr3() & PTE_ADDRESS);
    unsigned n = LOWER_HALF_PML4;

    for (unsigned level = 0; level < 3; level++) {
        table[n] = fuzz_physical(last_tables[level]) | PTE_P | PTE_RW;
        table = last_tables[level];
        n = LAST_ENTRY;
    }
    table[n] = fuzz_physical(last_page) | flags;
    write_cr3(read_cr3());
    return LOWER_HALF_END - sizeof(last_page);
}

/* One instruction that may fault, by RDI, and a RET. A CPUID after it enters the guest with what it
 * has left. */
static const uint8_t lgdt[] = {0x0f, 0x01, 0x17, 0xc3}, lidt[] = {0x0f, 0x01, 0x1f, 0xc3},
                     lldt[] = {0x0f, 0x00, 0xd7, 0xc3}, ltr[] = {0x0f, 0x00, 0xdf, 0xc3},
                     to_dr7[] = {0x0f, 0x23, 0xff, 0xc3}, to_cr0[] = {0x0f, 0x22, 0xc7, 0xc3};

static void try_64(const char *name, const uint8_t *code, uint64_t rdi)
{
    bool done = call_try(code, rdi);

    (void)cpuid(0, 0);
    log_printf("entry: case=%s mode=64 vector=%lu\n", name, done ? 0 : fault_vector);
}

/* MSRs that the VMCS has: which bits can be changed, each alone and with an exit while it is. */
static void try_msrs(void)
{
    static const uint32_t indices[] = {IA32_DEBUGCTL,
                                       IA32_PERF_GLOBAL_CTRL,
                                       IA32_PAT,
                                       IA32_EFER,
                                       IA32_S_CET,
                                       IA32_SYSENTER_EIP,
                                       IA32_SYSENTER_EIP - 1,
                                       IA32_INTERRUPT_SSP_TABLE_ADDR,
                                       IA32_BNDCFGS,
                                       IA32_LBR_CTL,
                                       IA32_GS_BASE - 1};
    uint64_t before;

    for (unsigned i = 0; i < LENGTH_OF(indices); i++) {
        uint64_t taken = 0;
        for (unsigned bit = 0; bit < 64 && rdmsr_try(indices[i], &before); bit++)
            if (wrmsr_try(indices[i], before ^ BIT(bit))) {
                taken |= BIT(bit);
                (void)cpuid(0, 0);
                wrmsr(indices[i], before);
            }
        log_printf("entry: case=msr mode=%x bits=0x%lx\n", indices[i], taken);
    }
}

/* Tables and their descriptors at addresses that are not canonical, and the like. */
static void try_registers(void)
{
    const struct table_register beyond = {VECTORS * 16 - 1, LOWER_HALF_END};
    uint64_t gdt[] = {0, 0, GDT_CODE_64, GDT_DATA, LDT, LOWER_HALF_END >> 32};
    struct table_register own = {sizeof(gdt) - 1, (uint64_t)gdt}, gdtr;

    try_64("gdtr", lgdt, (uint64_t)&beyond);
    try_64("idtr", lidt, (uint64_t)&beyond);
    try_64("dr7", to_dr7, BIT(32));
    try_64("cr0-nw", to_cr0, (read_cr0() ^ CR0_NE) | CR0_NW);
    __asm__ volatile("sgdt %0\n\t"
                     "lgdt %1"
                     : "=m"(gdtr)
                     : "m"(own));
    try_64("ldtr-base", lldt, OWN_SYSTEM);
    gdt[OWN_SYSTEM / 8] ^= LDT ^ (TSS_AVAILABLE << 40);
    try_64("tr-base", ltr, OWN_SYSTEM);
    try_64("tr-null", ltr, 0);
    __asm__ volatile("lgdt %0" : : "m"(gdtr));
}

/* Code that an exception ends; the privilege level is CS's. */
static void run_64(const char *name, uint64_t rip, uint64_t cs, uint64_t ss)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, %0\n\t"
                     "push %%rbp\n\t"
                     "mov %%rsp, %1\n\t"
                     "mov %%rsp, %%rax\n\t"
                     "push %4\n\t"
                     "push %%rax\n\t"
                     "pushfq\n\t"
                     "push %3\n\t"
                     "push %2\n\t"
                     "xor %%eax, %%eax\n\t"
                     "xor %%ecx, %%ecx\n\t"
                     "iretq\n"
                     "1: mov %1, %%rsp\n\t"
                     "pop %%rbp"
                     : "=m"(fault_resume), "+m"(stack_before)
                     : "r"(rip), "r"(cs), "r"(ss)
                     : "rax", "rbx", "rcx", "rdx", "memory", "cc");
    log_printf("entry: case=%s mode=64 vector=%lu\n", name, fault_vector);
}

/* A shadow stack at the end of the lower half: its token goes, and SSP is no canonical address.
 * Then, with S_CET and SSP above 4 GiB, outside IA-32e mode. */
static void run_cet(void)
{
    uint64_t cr0 = read_cr0(), cr4 = read_cr4(), ssp;
    uint64_t token = map_last(PTE_P | PTE_D) + sizeof(last_page) - sizeof(uint64_t);

    last_page[LAST_ENTRY] = token;
    wrmsr(IA32_PL0_SSP, token);
    write_cr0(cr0 | CR0_WP);
    write_cr4(cr4 | CR4_CET);
    try_64("cr0-wp", to_cr0, (cr0 & ~CR0_WP) ^ CR0_NE);
    wrmsr(IA32_S_CET, SH_STK_EN);
    __asm__ volatile("setssbsy\n\t"
                     "mov $1, %%eax\n\t"
                     "incsspq %%rax\n\t"
                     "xor %%eax, %%eax\n\t"
                     "cpuid\n\t"
                     "rdsspq %0\n\t"
                     "mov %1, %%ecx\n\t"
                     "xor %%eax, %%eax\n\t"
                     "xor %%edx, %%edx\n\t"
                     "wrmsr"
                     : "=&r"(ssp)
                     : "i"(IA32_S_CET)
                     : "rax", "rbx", "rcx", "rdx", "memory");
    log_printf("entry: case=ssp-end mode=64 ssp=0x%lx\n", ssp);
    wrmsr(IA32_S_CET, BITMAP_ABOVE_4_GIB);
    write_cr4(cr4);
    run_legacy(&(const struct legacy_case){.name = "cet-legacy", 0, {CPUID, UD2}}, PROTECTED);
    last_page[LAST_ENTRY] = token; /* once more, for the tests to come */
    write_cr4(cr4 | CR4_CET);
    wrmsr(IA32_S_CET, SH_STK_EN);
    __asm__ volatile("setssbsy" : : : "memory");
    wrmsr(IA32_S_CET, 0);
    write_cr4(cr4);
    write_cr0(cr0);
}

/* `entry`: all cases. */
void test_entry(const struct job *job)
{
    static const uint8_t tried[] = {CPUID, UD2};
    struct table_register gdtr;

    wrmsr(IA32_LSTAR,
          rdmsr(IA32_LSTAR)); /* the emulator: from here on no MSR exists that does not */
    for (unsigned i = 0; i < LENGTH_OF(legacy_cases); i++)
        for (enum legacy_mode mode = 0; mode < LEGACY_MODES; mode++)
            if (legacy_cases[i].modes & OF(mode))
                run_legacy(&legacy_cases[i], mode);
    __asm__ volatile("sgdt %0" : "=m"(gdtr));
    memcpy((uint8_t *)last_page + sizeof(last_page) - 2, tried, 2);
    ((uint64_t *)gdtr.base)[CODE_RING_1 / 8] = GDT_CODE_64 | DESCRIPTOR_D;
    run_64("cs-l-d", (uintptr_t)tried, CODE_RING_1, DATA_SELECTOR);
    try_registers();
    try_msrs();
    run_64("rip-end", map_last(PTE_P | PTE_RW) + sizeof(last_page) - 2, CODE_SELECTOR,
           DATA_SELECTOR);
    if (cpuid_extended_features().ecx & CET_SS)
        run_cet();
    ((uint64_t *)gdtr.base)[CODE_RING_1 / 8] = GDT_CODE_64 | DPL_1;
    run_64("ss-null", (uintptr_t)tried, CODE_RING_1 | 1, 1);
    tap_result(true, job->name, NULL);
}
