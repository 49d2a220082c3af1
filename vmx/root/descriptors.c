/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Root mode's descriptor tables. NMIs, and the exceptions that a bad stack would cause, have their
 * own stacks through the IST. SDM Vol. 3, "Protected-Mode Memory Management"; "64-Bit Mode Stack
 * Frame".
 */
#include "vmx/root/descriptors.h"

#include "vmx/cpu.h"

extern const char exception_stubs[];
#define EXCEPTION_STUB_BYTES 16
#define EXCEPTIONS 32

#define IST_NMI 1
#define IST_FAULT 2 /* #DF, #PF and #MC: the current stack may be broken */

struct tables {
    uint64_t gdt[5]; /* null, code, data, TSS (two entries) */
    struct tss tss;
    struct idt_gate {
        uint64_t low;
        uint64_t high;
    } idt[EXCEPTIONS] __attribute__((aligned(16)));
};
_Static_assert(sizeof(struct tables) <= PAGE_SIZE, "one page holds all three");
_Static_assert(sizeof(((struct tables *)0)->idt) == ROOT_IDT_BYTES, "as descriptors.h says");

static struct idt_gate make_gate(const char *target, uint64_t ist)
{
    uint64_t address = (uint64_t)target;

    return (struct idt_gate){(address & 0xffff) | ROOT_CS << 16 | ist << 32 | GATE_INTERRUPT << 40 |
                                 (address >> 16 & 0xffff) << 48,
                             address >> 32};
}

void descriptors_set_gate(void *idt, unsigned vector, const char *target)
{
    ((struct idt_gate *)idt)[vector] = make_gate(target, 0);
}

static void load_gdt_and_segments(const struct tables *t)
{
    struct table_register gdtr = {sizeof(t->gdt) - 1, (uint64_t)t->gdt};

    __asm__ volatile("lgdt %0\n\t"
                     "pushq %1\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "lretq\n\t"
                     "1: movl %2, %%eax\n\t"
                     "movl %%eax, %%ss\n\t"
                     "movl %%eax, %%ds\n\t"
                     "movl %%eax, %%es\n\t"
                     "xorl %%eax, %%eax\n\t"
                     "movl %%eax, %%fs\n\t"
                     "movl %%eax, %%gs\n\t"
                     "movl %3, %%eax\n\t"
                     "ltr %%ax"
                     :
                     : "m"(gdtr), "i"(ROOT_CS), "i"(ROOT_DS), "i"(ROOT_TR)
                     : "rax", "memory");
}

bool descriptors_are_loaded(void)
{
    struct table_register idtr;

    /* The IDT is loaded last. So if the IDT has the hypervisor's first gate, all tables are loaded.
     * Firmware's IDT does not have this gate. */
    __asm__ volatile("sidt %0" : "=m"(idtr));
    /* The limit may be larger, because every VM exit sets it to FFFFH (SDM Vol. 3, "Loading Host
     * Segment and Descriptor-Table Registers"). */
    if (idtr.limit < sizeof(((struct tables *)0)->idt) - 1 || idtr.base == 0)
        return false;
    const struct idt_gate *first = (const struct idt_gate *)idtr.base;
    struct idt_gate ours = make_gate(exception_stubs, 0);
    return first->low == ours.low && first->high == ours.high;
}

struct descriptor_tables descriptors_load(struct cpu *cpu, const char *nmi_entry)
{
    struct tables *t = page_alloc(1);
    uint64_t tss = (uint64_t)&t->tss;

    *t = (struct tables){
        .gdt = {0, GDT_CODE_64, GDT_DATA,
                (sizeof(t->tss) - 1) | (tss & 0xffffff) << 16 | TSS_AVAILABLE << 40 |
                    (tss >> 24 & 0xff) << 56,
                tss >> 32},
        .tss.ist[IST_NMI - 1] = cpu->nmi_stack,
        .tss.ist[IST_FAULT - 1] = cpu->fault_stack,
        .tss.io_map_base = sizeof(t->tss),
    };
    for (uint64_t v = 0; v < EXCEPTIONS; v++) {
        bool own_stack = v == VECTOR_DF || v == VECTOR_PF || v == VECTOR_MC;
        t->idt[v] = make_gate(exception_stubs + v * EXCEPTION_STUB_BYTES,
                              own_stack ? IST_FAULT : 0);
    }
    t->idt[VECTOR_NMI] = make_gate(nmi_entry, IST_NMI);
    load_gdt_and_segments(t);
    wrmsr(IA32_GS_BASE, (uint64_t)cpu);
    /* Load the IDT last, because from then on an NMI needs the TSS for its stack, and GS for struct
     * cpu. */
    struct table_register idtr = {sizeof(t->idt) - 1, (uint64_t)t->idt};
    __asm__ volatile("lidt %0" : : "m"(idtr) : "memory");
    return (struct descriptor_tables){(uint64_t)t->gdt, (uint64_t)t->idt, tss};
}
