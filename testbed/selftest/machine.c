/* SPDX-License-Identifier: BSD-2-Clause
 * machine.c: the self-test's hold on the machine: its own IDT, the local APIC in both modes, COM1
 * and the power switch. SDM Vol. 3, "Interrupt and Exception Handling" and "Advanced Programmable
 * Interrupt Controller".
 */
#include "selftest.h"

#define COM1_DATA 0x3f8
#define COM1_LCR 0x3fb
#define COM1_LSR 0x3fd
#define LCR_8N1 3
#define LSR_THR_EMPTY 0x20
#define PIC1_DATA 0x21
#define PIC2_DATA 0xa1
#define PM1A_CONTROL 0xb004
#define PM1_SLP_EN BIT(13)

#define APIC_BASE_X2APIC BIT(10)
#define XAPIC_EOI ((volatile uint32_t *)0xfee000b0)
#define XAPIC_SVR ((volatile uint32_t *)0xfee000f0)
#define XAPIC_LVT_PMI ((volatile uint32_t *)0xfee00340)
#define XAPIC_LVT_TIMER ((volatile uint32_t *)0xfee00320)
#define SVR_ENABLED_VECTOR_FF 0x1ffu
#define IA32_X2APIC_EOI 0x80b

#define VECTORS 256
#define VECTOR_NMI 2
#define VECTOR_GP 13
#define VECTOR_LAST_EXCEPTION 31
#define GATE_INTERRUPT 0x8e00u
#define GATE_PRESENT 0x8000u

struct gate {
    uint16_t offset_low, selector, type, offset_middle;
    uint32_t offset_high, reserved;
};
_Static_assert(sizeof(struct gate) == 16, "64-bit gate");

struct table_register {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed));

volatile unsigned nmis;
volatile unsigned pmi_interrupts;
volatile uint64_t nmi_rip;
volatile unsigned timer_interrupts;
volatile uint64_t timer_tsc;

static struct gate idt[VECTORS];

uint8_t task_state[TSS_SIZE];
/* Null, 64-bit code, data, and the task state's two words: VMX wants a task register in use. */
static uint64_t gdt[] = {0, UINT64_C(0x00af9b000000ffff), UINT64_C(0x00cf93000000ffff), 0, 0};
/* Where a #GP continues; 0 is nowhere. Set by the access that may fault, taken by the handler. */
static volatile uint64_t fault_resume;
static bool x2apic;

void print(const char *text)
{
    for (; *text != 0; text++) {
        while ((inb(COM1_LSR) & LSR_THR_EMPTY) == 0)
            ;
        outb(COM1_DATA, (uint8_t)*text);
    }
}

void print_number(uint64_t number)
{
    char text[] = "0x0000000000000000";

    for (unsigned n = sizeof(text) - 2; n > 1; n--, number >>= 4)
        text[n] = "0123456789abcdef"[number & 0xf];
    print(text);
}

void power_off(void)
{
    outw(PM1A_CONTROL, PM1_SLP_EN);
    for (;;)
        __asm__ volatile("cli; hlt");
}

__attribute__((interrupt)) static void on_nmi(struct frame *frame)
{
    nmis++;
    nmi_rip = frame->rip;
}

__attribute__((interrupt)) static void on_pmi(struct frame *frame)
{
    (void)frame;
    pmi_interrupts++;
    end_of_interrupt();
}

__attribute__((interrupt)) static void on_timer(struct frame *frame)
{
    uint32_t low, high;

    (void)frame;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    timer_tsc = (uint64_t)high << 32 | low;
    timer_interrupts++;
    end_of_interrupt();
}

/* The firmware's timer may have left one behind. */
__attribute__((interrupt)) static void on_stray(struct frame *frame)
{
    (void)frame;
    end_of_interrupt();
}

__attribute__((interrupt)) static void on_gp(struct frame *frame, uint64_t error)
{
    if (fault_resume == 0) {
        print("selftest: unexpected #GP at ");
        print_number(frame->rip);
        print(" error ");
        print_number(error);
        print("\n");
        power_off();
    }
    frame->rip = fault_resume;
    fault_resume = 0;
}

__attribute__((interrupt)) static void on_exception(struct frame *frame, uint64_t error)
{
    (void)error;
    print("selftest: unexpected exception at ");
    print_number(frame->rip);
    print("\n");
    power_off();
}

void set_gate(unsigned vector, const void *handler)
{
    uint64_t address = (uint64_t)(uintptr_t)handler;
    uint16_t cs;

    __asm__("mov %%cs, %0" : "=r"(cs));
    idt[vector] = (struct gate){
        (uint16_t)address,         cs, GATE_INTERRUPT, (uint16_t)(address >> 16),
        (uint32_t)(address >> 32), 0};
}

void gate_present(unsigned vector, bool present)
{
    idt[vector].type = present ? GATE_INTERRUPT : GATE_INTERRUPT & ~GATE_PRESENT;
}

static void gdt_init(void)
{
    uint64_t base = (uint64_t)(uintptr_t)task_state;
    const struct table_register gdtr = {sizeof(gdt) - 1, (uint64_t)(uintptr_t)gdt};

    gdt[SELECTOR_TSS / 8] = (TSS_SIZE - 1) | (base & 0xffffff) << 16 | UINT64_C(0x89) << 40 |
                            (base >> 24 & 0xff) << 56;
    gdt[SELECTOR_TSS / 8 + 1] = base >> 32;
    __asm__ volatile("lgdt %0\n\t"
                     "mov %2, %%ds\n\tmov %2, %%es\n\tmov %2, %%ss\n\t"
                     "mov %2, %%fs\n\tmov %2, %%gs\n\t"
                     "ltr %w3\n\t"
                     "pushq %1\n\t"
                     "lea 1f(%%rip), %%rax\n\t"
                     "push %%rax\n\t"
                     "lretq\n"
                     "1:"
                     :
                     : "m"(gdtr), "i"(SELECTOR_CODE), "r"(SELECTOR_DATA), "r"(SELECTOR_TSS)
                     : "rax", "memory");
}

void machine_init(void)
{
    const struct table_register idtr = {sizeof(idt) - 1, (uint64_t)(uintptr_t)idt};

    __asm__ volatile("cli");
    gdt_init();
    outb(PIC1_DATA, 0xff);
    outb(PIC2_DATA, 0xff);
    outb(COM1_LCR, LCR_8N1);
    for (unsigned n = 0; n <= VECTOR_LAST_EXCEPTION; n++)
        set_gate(n, (const void *)on_exception);
    for (unsigned n = VECTOR_LAST_EXCEPTION + 1; n < VECTORS; n++)
        set_gate(n, (const void *)on_stray);
    set_gate(VECTOR_NMI, (const void *)on_nmi);
    set_gate(VECTOR_GP, (const void *)on_gp);
    set_gate(PMI_VECTOR, (const void *)on_pmi);
    set_gate(TIMER_VECTOR, (const void *)on_timer);
    __asm__ volatile("lidt %0" : : "m"(idtr));
    *XAPIC_LVT_TIMER = LVT_MASKED;
    *XAPIC_SVR = SVR_ENABLED_VECTOR_FF;
}

/* Runs one instruction that may take #GP(0): whichever way it ends, it goes on at the label. */
#define TRY(instruction, done, a, d, index)                                                        \
    __asm__ volatile("lea 1f(%%rip), %%r8\n\t"                                                     \
                     "mov %%r8, %1\n\t" instruction "\n\t"                                         \
                     "mov $1, %0\n"                                                                \
                     "1:\n\t"                                                                      \
                     "movq $0, %1"                                                                 \
                     : "+r"(done), "+m"(fault_resume), "+a"(a), "+d"(d)                            \
                     : "c"(index)                                                                  \
                     : "r8", "memory")

bool wrmsr_faults(uint32_t index, uint64_t value)
{
    uint64_t done = 0;
    uint32_t a = (uint32_t)value, d = (uint32_t)(value >> 32);

    TRY("wrmsr", done, a, d, index);
    return done == 0;
}

bool rdmsr_faults(uint32_t index)
{
    uint64_t done = 0;
    uint32_t a = 0, d = 0;

    TRY("rdmsr", done, a, d, index);
    return done == 0;
}

bool rdpmc_faults(uint32_t index)
{
    uint64_t done = 0;
    uint32_t a = 0, d = 0;

    TRY("rdpmc", done, a, d, index);
    return done == 0;
}

uint32_t lvtpc_read(void) { return x2apic ? (uint32_t)rdmsr(IA32_X2APIC_LVT_PMI) : *XAPIC_LVT_PMI; }

void lvtpc_write(uint32_t value)
{
    if (x2apic)
        wrmsr(IA32_X2APIC_LVT_PMI, value);
    else
        *XAPIC_LVT_PMI = value;
}

void x2apic_enable(void)
{
    wrmsr(IA32_APIC_BASE, rdmsr(IA32_APIC_BASE) | APIC_BASE_X2APIC);
    x2apic = true;
}

void end_of_interrupt(void)
{
    if (x2apic)
        wrmsr(IA32_X2APIC_EOI, 0);
    else
        *XAPIC_EOI = 0;
}
