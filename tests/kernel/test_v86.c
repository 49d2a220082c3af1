/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Virtual-8086 mode, natively and across exits: with IOPL 0 and 3, with CR4.VME and without, in
 * single steps and not. A line for each run has the first event: a #GP of HLT where there was none
 * before. SDM Vol. 3, "8086 Emulation"; "Virtual-8086 Mode Extensions".
 */
#include "fuzz.h"
#include "smp.h"

#include <string.h>

#include "console/log.h"

#define CR4_VME BIT(0)
#define INT_TO_IDT 0x40 /* its bit in the TSS says so, even with VME */
#define INT_TO_IVT 0x41
#define GATE_32 0x8e
#define GATE_USER_32 0xee
#define EXCEPTIONS_32 20
#define PORT_REFUSED 0x80
#define PORT_FREE 0x84    /* a string there is no exit's to refuse */
#define IVT_HANDLER 0x800 /* in the page of the code */
#define STACK_AT 0xf00
#define LAST_BYTES 0xfffe

struct v86 {
    struct table_register gdt __attribute__((aligned(16)));
    struct table_register idt __attribute__((aligned(16)));
    uint32_t cr4 __attribute__((aligned(16)));
    uint32_t cr4_after, stack;
    uint32_t eip, cs, eflags, esp, ss, es, ds;
    uint32_t eax, ecx, edx;
    struct {
        uint32_t edi, esi, ebp, pushad_esp, ebx, edx, ecx, eax;
        uint32_t vector, error, eip, cs, eflags, esp, ss;
    } out;
};
_Static_assert(offsetof(struct v86, idt) == 16 && offsetof(struct v86, cr4) == 32 &&
                   offsetof(struct v86, eip) == 44 && offsetof(struct v86, eax) == 72 &&
                   offsetof(struct v86, out) == 84,
               "v86.asm");
extern const char v86_code[];
extern const uint64_t v86_stubs;

static struct v86 run;
static uint64_t gdt[6], idt[INT_TO_IVT + 1];
static struct tss_32 {
    uint32_t words[26];
    uint8_t redirection[32], io[0x2001];
} __attribute__((packed)) tss;
static uint32_t stack[256];

static const struct instruction {
    const char *name;
    uint8_t length, code[12];
    bool at_end, values; /* in the segment's last bytes; EAX to EDX are as natively */
    uint16_t port;       /* DX; 0: PM1a control, which exits */
} instructions[] = {
    {"nop", 1, .code = {0x90}, .values = true},
    {"cpuid", 2, .code = {0x0f, 0xa2}, .values = true},
    {"cpuid-end", 2, .code = {0x0f, 0xa2}, .at_end = true, .values = true},
    {"mov-ss-cpuid", 4, .code = {0x8e, 0xd0, 0x0f, 0xa2}}, /* AX is 0 */
    {"cpuid-many", 10, .code = {0xb9, 200, 0, 0x51, 0x0f, 0xa2, 0x59, 0xe2, 0xfa, 0x90}},
    {"rdmsr", 2, .code = {0x0f, 0x32}},
    {"wrmsr", 2, .code = {0x0f, 0x30}},
    {"rdpmc", 2, .code = {0x0f, 0x33}},
    {"xsetbv", 3, .code = {0x0f, 0x01, 0xd1}},
    {"getsec", 2, .code = {0x0f, 0x37}},
    {"vmread", 3, .code = {0x0f, 0x78, 0xc0}},
    {"invd", 2, .code = {0x0f, 0x08}},
    {"wbinvd", 2, .code = {0x0f, 0x09}},
    {"mwait", 3, .code = {0x0f, 0x01, 0xc9}},
    {"mov-cr0", 3, .code = {0x0f, 0x22, 0xc0}},
    {"mov-cr4", 3, .code = {0x0f, 0x22, 0xe0}},
    {"mov-dr7", 3, .code = {0x0f, 0x23, 0xf8}},
    {"lgdt", 5, .code = {0x0f, 0x01, 0x16, 0, 0}},
    {"in", 1, .code = {0xed}},
    {"out-refused", 2, .code = {0xe6, PORT_REFUSED}},
    {"in-refused", 2, .code = {0xe4, PORT_REFUSED}},
    {"in-61", 2, .code = {0xe4, 0x61}},
    {"ins", 1, .code = {0x6c}, .port = PORT_FREE},
    {"int3", 1, .code = {0xcc}},
    {"int-idt", 2, .code = {0xcd, INT_TO_IDT}},
    {"int-ivt", 2, .code = {0xcd, INT_TO_IVT}},
    {"cli", 1, .code = {0xfa}},
    {"sti", 1, .code = {0xfb}},
    {"sti-cpuid", 3, .code = {0xfb, 0x0f, 0xa2}},
    {"pushf", 1, .code = {0x9c}},
    {"ud2", 2, .code = {0x0f, 0x0b}},
};

static void tables_make(uint64_t code, bool vme)
{
    uint64_t base = fuzz_physical(&tss), stubs = code + (v86_stubs - (uintptr_t)v86_code);

    gdt[2] = 0x00af9b000000ffffULL;
    gdt[3] = 0x00cf93000000ffffULL;
    gdt[4] = 0x00cf9b000000ffffULL;
    gdt[5] = (sizeof(tss) - 1) | (base & 0xffffff) << 16 | 0x89ULL << 40 | (base >> 24) << 56;
    for (unsigned v = 0; v <= INT_TO_IVT; v++) {
        uint64_t stub = stubs + STUB_BYTES * (v < EXCEPTIONS_32 ? v : EXCEPTIONS_32 + v % 2);
        uint8_t type = v == VECTOR_BP || v >= INT_TO_IDT ? GATE_USER_32 : GATE_32;
        idt[v] = (stub & 0xffff) | 0x20ULL << 16 | (uint64_t)type << 40 | (stub >> 16) << 48;
        if (v >= EXCEPTIONS_32 && v < INT_TO_IDT)
            idt[v] = 0;
    }
    memset(&tss, 0, sizeof(tss));
    tss.words[1] = (uint32_t)(fuzz_physical(stack) + sizeof(stack)); /* ESP0, SS0 */
    tss.words[2] = DATA_SELECTOR;
    tss.words[25] = (uint32_t)offsetof(struct tss_32, io) << 16;
    tss.redirection[INT_TO_IDT / 8] = BIT(INT_TO_IDT % 8);
    tss.io[PORT_REFUSED / 8] = BIT(PORT_REFUSED % 8);
    tss.io[sizeof(tss.io) - 1] = 0xff;
    run = (struct v86){
        .gdt = {sizeof(gdt) - 1, fuzz_physical(gdt)},
        .idt = {sizeof(idt) - 1, fuzz_physical(idt)},
        .cr4 = (uint32_t)(read_cr4() | CR4_OSXSAVE | (vme ? CR4_VME : 0)),
        .cr4_after = (uint32_t)read_cr4(),
        .stack = (uint32_t)(fuzz_physical(stack) + sizeof(stack) / 2),
    };
}

static void execute(const struct instruction *i, uint64_t page, unsigned iopl, bool vme, bool step)
{
    uint64_t code = fuzz_physical(v86_code);
    uint32_t segment = (uint32_t)(page >> 4), ip = 0;
    uintptr_t low = INT_TO_IVT * 4;

    __asm__("" : "+r"(low)); /* compilers take such an address for NULL */
    uint16_t *ivt = (uint16_t *)low, before[2] = {ivt[0], ivt[1]};

    tables_make(code, vme);
    memset((void *)page, 0xf4, PAGE_SIZE); /* HLT */
    if (i->at_end) {
        segment = (uint32_t)((page + PAGE_SIZE - LAST_BYTES - 2) >> 4);
        ip = LAST_BYTES;
    }
    memcpy((void *)(((uint64_t)segment << 4) + ip), i->code, i->length);
    run.eip = ip;
    run.cs = segment;
    run.ss = run.ds = run.es = (uint32_t)(page >> 4);
    run.esp = STACK_AT;
    run.eflags = (uint32_t)(RFLAGS_VM | RFLAGS_FIXED | (iopl == 3 ? RFLAGS_IOPL : 0) |
                            (step ? RFLAGS_TF : 0));
    run.edx = i->port != 0 ? i->port : machine_pm1a_control();
    ivt[0] = IVT_HANDLER;
    ivt[1] = (uint16_t)(page >> 4);
    __asm__ volatile("" : : : "memory");
    ((void (*)(uint64_t, uint64_t))code)(code, fuzz_physical(&run));
    ivt[0] = before[0];
    ivt[1] = before[1];
    cpu_setup();
    log_printf(
        "v86: instruction=%s iopl=%u vme=%d step=%d vector=%u error=%u ip=0x%x cs=%d flags=0x%x "
        "sp=0x%x eax=0x%x ebx=0x%x ecx=0x%x edx=0x%x\n",
        i->name, iopl, vme, step, run.out.vector, run.out.error, run.out.eip, run.out.cs == segment,
        run.out.eflags, run.out.esp, i->values ? run.out.eax : 0, i->values ? run.out.ebx : 0,
        i->values ? run.out.ecx : 0, i->values ? run.out.edx : 0);
}

/* `v86` */
void test_v86(const struct job *job)
{
    uint64_t page = smp_page(0), cr4 = read_cr4();

    if (page == 0) {
        tap_skip(job->name, "no memory below 1 MiB");
        return;
    }
    write_cr4(cr4 & ~(uint64_t)CR4_OSXSAVE);
    for (unsigned n = 0; n < LENGTH_OF(instructions); n++)
        for (unsigned how = 0; how < 8; how++)
            /* What follows the segment's end is not ours. */
            if (!instructions[n].at_end || how & 4)
                execute(&instructions[n], page, how & 1 ? 3 : 0, how & 2, how & 4);
    write_cr4(cr4);
    tap_result(true, job->name, NULL);
}
