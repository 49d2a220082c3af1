/* SPDX-License-Identifier: BSD-2-Clause
 *
 * GDT and TSS of each processor, and the two IDTs of the test kernel: one whose handlers keep
 * their state in one place, for a processor that runs alone, and one whose handlers keep it by
 * processor. NMIs and exceptions have stacks of their own. SDM Vol. 3, "Segment Descriptors",
 * "64-Bit TSS", "Interrupt and Exception Handling in 64-bit Mode", "Interrupt Stack Table".
 */
#include "kernel.h"

#include "smp.h"

#define STACK_BYTES AP_STACK
#define GDT_WORDS 6

static struct tables {
    uint64_t gdt[GDT_WORDS];
    struct tss tss;
} tables[KERNEL_PROCESSORS];
/* Of the processor that runs a test alone. */
static struct tables *current = &tables[0];
static struct gate idt[VECTORS], smp_idt[VECTORS];
static uint8_t stacks[2][STACK_BYTES] __attribute__((aligned(16)));

struct gate cpu_gate_to(const void *handler, uint8_t ist)
{
    uint64_t address = (uintptr_t)handler;

    return (struct gate){
        .offset_low = (uint16_t)address,
        .selector = CODE_SELECTOR,
        .ist = ist,
        .type = GATE_INTERRUPT,
        .offset_middle = (uint16_t)(address >> 16),
        .offset_high = (uint32_t)(address >> 32),
    };
}

static void gate_set(struct gate *gates, unsigned vector, const void *handler, uint8_t ist)
{
    gates[vector] = cpu_gate_to(handler, ist);
}

static void gdt_setup(struct tables *t)
{
    uint64_t base = (uintptr_t)&t->tss;
    struct table_register r = {sizeof(t->gdt) - 1, (uintptr_t)t->gdt};

    t->gdt[CODE_SELECTOR / 8] = GDT_CODE_64;
    t->gdt[DATA_SELECTOR / 8] = GDT_DATA;
    t->gdt[TSS_SELECTOR / 8] = (sizeof(t->tss) - 1) | (base & 0xffffff) << 16 |
                               TSS_AVAILABLE << 40 | (base >> 24 & 0xff) << 56;
    t->gdt[TSS_SELECTOR / 8 + 1] = base >> 32;
    __asm__ volatile("lgdt %0\n\t"
                     "mov %1, %%ds\n\t"
                     "mov %1, %%es\n\t"
                     "mov %1, %%fs\n\t"
                     "mov %1, %%gs\n\t"
                     "ltr %2"
                     :
                     : "m"(r), "r"(DATA_SELECTOR), "r"((uint16_t)TSS_SELECTOR)
                     : "memory");
}

void cpu_load_cs_ss(void)
{
    __asm__ volatile("mov %%rsp, %%rax\n\t"
                     "push %0\n\t"
                     "push %%rax\n\t"
                     "pushfq\n\t"
                     "push %1\n\t"
                     "lea 1f(%%rip), %%rax\n\t"
                     "push %%rax\n\t"
                     "iretq\n"
                     "1:"
                     :
                     : "i"(DATA_SELECTOR), "i"(CODE_SELECTOR)
                     : "rax", "memory", "cc");
}

void cpu_exception_stack(unsigned vector, uint64_t top)
{
    current->tss.ist[IST_SPOILT - 1] = top;
    idt[vector].ist = top != 0 ? IST_SPOILT : IST_EXCEPTION;
}

void cpu_nmi_entry(const void *handler)
{
    gate_set(idt, VECTOR_NMI, handler != NULL ? handler : nmi_entry, IST_NMI);
}

void cpu_gate(unsigned vector, const void *handler) { gate_set(idt, vector, handler, 0); }

void cpu_gate_present(unsigned vector, bool present)
{
    idt[vector].type = present ? GATE_INTERRUPT : GATE_INTERRUPT & ~GATE_PRESENT;
}

void shut_down(void)
{
    static const struct table_register none;

    __asm__ volatile("lidt %0\n\tud2" : : "m"(none));
}

struct tss *cpu_task_state(void) { return &current->tss; }

static void tables_load(struct tables *t, uint64_t nmi_top, uint64_t exception_top)
{
    t->tss.ist[IST_NMI - 1] = nmi_top;
    t->tss.ist[IST_EXCEPTION - 1] = exception_top;
    t->tss.io_map_base = sizeof(t->tss);
    gdt_setup(t);
}

void cpu_setup(void)
{
    tables_load(&tables[0], (uintptr_t)stacks[0] + STACK_BYTES, (uintptr_t)stacks[1] + STACK_BYTES);
    for (unsigned v = 0; v < VECTORS; v++)
        if (v < EXCEPTIONS)
            gate_set(idt, v, exception_stubs + v * STUB_BYTES, IST_EXCEPTION);
        else
            gate_set(idt, v, stray_interrupt, IST_EXCEPTION);
    cpu_nmi_entry(NULL);
    cpu_handlers(true);
    cpu_load_cs_ss();
}

void cpu_handlers(bool alone)
{
    struct table_register r = {sizeof(idt) - 1, (uintptr_t)(alone ? idt : smp_idt)};

    __asm__ volatile("lidt %0" : : "m"(r));
}

void cpu_current(unsigned number) { current = &tables[number]; }

void cpu_setup_smp(void)
{
    for (unsigned v = 0; v < VECTORS; v++)
        if (v < EXCEPTIONS)
            gate_set(smp_idt, v, smp_exception_stubs + v * STUB_BYTES, IST_EXCEPTION);
        else
            gate_set(smp_idt, v, smp_interrupt, IST_EXCEPTION);
    gate_set(smp_idt, VECTOR_NMI, smp_nmi_entry, IST_NMI);
}

void cpu_interrupts(unsigned first, unsigned last, const char *stubs)
{
    for (unsigned v = first; v <= last; v++)
        if (stubs != NULL)
            gate_set(smp_idt, v, stubs + (v - first) * STUB_BYTES, 0);
        else if (v < EXCEPTIONS)
            gate_set(smp_idt, v, smp_exception_stubs + v * STUB_BYTES, IST_EXCEPTION);
        else
            gate_set(smp_idt, v, smp_interrupt, IST_EXCEPTION);
}

void cpu_gate_smp(unsigned vector, const char *handler, uint8_t ist)
{
    if (handler != NULL)
        gate_set(smp_idt, vector, handler, ist);
    else if (vector == VECTOR_NMI)
        gate_set(smp_idt, VECTOR_NMI, smp_nmi_entry, IST_NMI);
    else
        cpu_interrupts(vector, vector, NULL);
}

void cpu_event_stacks(unsigned number, uint64_t own[2], uint64_t nmi_top, uint64_t exception_top)
{
    struct tss *tss = &tables[number].tss;

    own[0] = tss->ist[IST_NMI - 1];
    own[1] = tss->ist[IST_EXCEPTION - 1];
    tss->ist[IST_NMI - 1] = nmi_top;
    tss->ist[IST_EXCEPTION - 1] = exception_top;
}

void cpu_setup_other(unsigned number)
{
    uint64_t top = (uintptr_t)ap_stacks + (uint64_t)(number + 1) * AP_STACKS;

    tables_load(&tables[number], top - AP_STACK, top - 2 * AP_STACK);
    cpu_handlers(false);
    cpu_load_cs_ss();
}
