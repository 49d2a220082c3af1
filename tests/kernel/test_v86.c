/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Virtual-8086 mode, natively and across exits: with IOPL 0 and 3, with CR4.VME and without, in
 * single steps and not. A line for each run has the first event: a #GP of HLT where there was none
 * before. SDM Vol. 3, "8086 Emulation"; "Virtual-8086 Mode Extensions".
 */
#include "fuzz_legacy.h"
#include "smp.h"

#include <string.h>

#include "console/log.h"

#define CR4_VME BIT(0)
#define INT_TO_IDT 0x40 /* its bit in the TSS says so, even with VME */
#define INT_TO_IVT 0x41
#define LAST_EXCEPTION 19 /* the next gate is INT_TO_IDT */
#define PORT_REFUSED 0x80
#define PORT_FREE 0x84    /* a string there is no exit's to refuse */
#define IVT_HANDLER 0x800 /* in the page of the code */
#define STACK_AT 0xf00
#define INS_TO 0x400 /* in the page, too */
#define LAST_BYTES 0xfffe

static struct tss_32 {
    uint32_t words[26];
    uint8_t redirection[32], io[0x2001];
} __attribute__((packed)) tss;

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

static void make_tables(void)
{
    legacy_make_tables();
    for (unsigned v = LAST_EXCEPTION + 1; v < INT_TO_IDT; v++)
        legacy.idt[v] = 0;
    legacy.idt[VECTOR_BP] |= DPL_3;
    legacy.idt[INT_TO_IDT] |= DPL_3;
    legacy.idt[INT_TO_IVT] |= DPL_3;
    memset(&tss, 0, sizeof(tss));
    memcpy(tss.words, legacy.tss, sizeof(tss.words));
    tss.words[25] = (uint32_t)offsetof(struct tss_32, io) << 16;
    tss.redirection[INT_TO_IDT / 8] = BIT(INT_TO_IDT % 8);
    tss.io[PORT_REFUSED / 8] = BIT(PORT_REFUSED % 8);
    tss.io[sizeof(tss.io) - 1] = 0xff;
    legacy.gdt[5] = TSS_AVAILABLE << 40 | (sizeof(tss) - 1) | legacy_base(fuzz_physical(&tss));
}

static void execute(const struct instruction *i, uint64_t page, unsigned iopl, bool vme, bool step)
{
    uint32_t segment = (uint32_t)(page >> 4), data = segment, ip = 0;
    uint64_t cr4 = read_cr4();
    uintptr_t low = INT_TO_IVT * 4;

    __asm__("" : "+r"(low)); /* compilers take such an address for NULL */
    uint16_t *ivt = (uint16_t *)low, before[2] = {ivt[0], ivt[1]};

    make_tables();
    memset((void *)page, 0xf4, PAGE_SIZE); /* HLT */
    if (i->at_end) {
        segment = (uint32_t)((page + PAGE_SIZE - LAST_BYTES - 2) >> 4);
        ip = LAST_BYTES;
    }
    memcpy((void *)(((uint64_t)segment << 4) + ip), i->code, i->length);
    memset(legacy.in, 0, sizeof(legacy.in));
    legacy.in[EDX] = i->port != 0 ? i->port : machine_pm1a_control();
    legacy.in[EDI] = INS_TO;
    legacy.clear_lme = false;
    memcpy(legacy.frame,
           (const uint32_t[]){ip, segment,
                              (uint32_t)(RFLAGS_VM | RFLAGS_FIXED | (iopl == 3 ? RFLAGS_IOPL : 0) |
                                         (step ? RFLAGS_TF : 0)),
                              STACK_AT, data, data, data, 0, 0},
           sizeof(legacy.frame));
    ivt[0] = IVT_HANDLER;
    ivt[1] = (uint16_t)data;
    write_cr4(cr4 | CR4_OSXSAVE | (vme ? CR4_VME : 0));
    __asm__ volatile("" : : : "memory");
    struct legacy_event e = legacy_run();
    write_cr4(cr4);
    ivt[0] = before[0];
    ivt[1] = before[1];
    cpu_setup();
    log_printf(
        "v86: instruction=%s iopl=%u vme=%d step=%d vector=%u error=%u ip=0x%x cs=%d flags=0x%x "
        "sp=0x%x eax=0x%x ebx=0x%x ecx=0x%x edx=0x%x\n",
        i->name, iopl, vme, step, e.vector, e.error, e.eip, e.cs == segment, e.eflags, e.esp,
        i->values ? legacy.out[EAX] : 0, i->values ? legacy.out[EBX] : 0,
        i->values ? legacy.out[ECX] : 0, i->values ? legacy.out[EDX] : 0);
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
