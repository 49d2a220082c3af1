/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The other processors: started before the guest, so that none of them ever executes an instruction
 * of the guest's outside VMX operation, and stopped at the end.
 * SDM Vol. 3, "Multiple-Processor (MP) Initialization"; "Other Causes of VM Exits" (INIT, SIPI).
 */
#include "processor.h"

#include <string.h>

#include "../apic/apic.h"
#include "setup.h"

#define PARK_US 100 /* from the last line before VMLAUNCH until it has certainly been executed */
#define PORT_DELAY 0x80

struct trampoline_parameters {
    uint64_t cr3;
    uint64_t stack;
    uint64_t argument;
    uint64_t entry;
};
extern const char trampoline_start[], trampoline_parameters[], trampoline_end[];

struct guest_processors processors;
volatile bool processors_stopping;
static struct cpu *cpus[PROCESSORS_MAX];
static volatile bool going;
static uint32_t stopper; /* 1 + its APIC ID */

struct cpu *processor_cpu(uint32_t index) { return cpus[index]; }

static void add(struct cpu *cpu)
{
    cpus[processors.count] = cpu;
    processors.apic_id[processors.count++] = cpu->apic_id;
}

/* What is the same for all, because it is shared: the EPT, the page of the local APIC. */
static bool fits_first(struct start *s, const struct vmx_capability *first)
{
    const uint64_t shared = EPT_CAP_PAGE_1G | EPT_CAP_PAGE_2M;

    if (first->ept_vpid & shared & ~s->capability.ept_vpid ||
        first->physical_address_bits != s->capability.physical_address_bits)
        return refuse(&s->refusal, REFUSE_UNSUPPORTED,
                      "its EPT differs from the first processor's (IA32_VMX_EPT_VPID_CAP 0x%lx and "
                      "0x%lx)", s->capability.ept_vpid, first->ept_vpid);
    return true;
}

static const struct start *first_start;

/* Where the trampoline leads, on the processor's own stack and the hypervisor's page tables. */
static _Noreturn void started(struct start *s)
{
    s->arrived = true;
    if (!processor_check(s) || !fits_first(s, &first_start->capability)) {
        s->state = REFUSED;
        processor_end();
    }
    processor_prepare(s);
    processor_enter_vmx(s, false);
    s->state = READY;
    while (!going)
        __asm__ volatile("pause");
    write_cr3(read_cr3()); /* the trampoline's page is not mapped any more */
    await_sipi(s->cpu);
    processor_launch(s);
}

static void set_trampoline(const struct boot_info *bi, struct start *s)
{
    uint8_t *page = (uint8_t *)bi->trampoline.base;
    uint64_t size = (uint64_t)(trampoline_end - trampoline_start);
    struct trampoline_parameters *p =
        (struct trampoline_parameters *)(page + (trampoline_parameters - trampoline_start));

    memcpy(page, trampoline_start, size);
    *p = (struct trampoline_parameters){
        .cr3 = s->cpu->host_cr3,
        .stack = s->cpu->root_stack,
        .argument = (uint64_t)s,
        .entry = (uint64_t)started,
    };
}

static void start_one(const struct boot_info *bi, uint32_t apic_id)
{
    struct start *s = processor_new(bi, apic_id, first_start->cpu->host_cr3);

    s->cpu->ept_root = first_start->cpu->ept_root;
    set_trampoline(bi, s);
    if (!apic_start_processor(apic_id, bi->trampoline.base, &s->arrived)) {
        log_printf("pmuvisor: processor %u did not start; it is hidden from the guest\n", apic_id);
        return;
    }
    /* It runs this program: it ends in one of the states, or stops the machine with its fault. */
    while (s->state == STARTING)
        __asm__ volatile("pause");
    if (s->state == READY)
        add(s->cpu);
    else
        log_printf("pmuvisor: processor %u cannot be used and is hidden from the guest: %s\n",
                   apic_id, s->refusal.line);
}

void processors_start(const struct boot_info *bi, const struct start *first)
{
    uint64_t root = first->cpu->host_cr3;
    uint32_t known = bi->acpi.processors < PROCESSORS_MAX ? bi->acpi.processors : PROCESSORS_MAX;

    first_start = first;
    add(first->cpu);
    if (bi->trampoline.size != 0 && !host_paging_map(root, bi->trampoline, HOST_READ_EXECUTE))
        needed(NULL);
    for (uint32_t i = 0; i < known && bi->trampoline.size != 0; i++)
        if (bi->acpi.apic_id[i] != first->cpu->apic_id)
            start_one(bi, bi->acpi.apic_id[i]);
    host_paging_unmap(root, bi->trampoline.base);
    if (bi->acpi.processors > 1)
        log_printf("pmuvisor: %u of %u processors are under VMX%s\n", processors.count,
                   bi->acpi.processors,
                   bi->trampoline.size == 0 ? ": no free page below 640 KiB to start others" : "");
}

void processors_go(void)
{
    going = true;
    for (unsigned i = 0; i < PARK_US && processors.count > 1; i++)
        (void)inb(PORT_DELAY);
}

/* An INIT exits from an active, halted or shut-down guest, whatever the guest blocks, and in root
 * mode it stays pending until the next entry; an NMI is obeyed in root mode unless NMIs are blocked
 * there, and then the way leads to the unblocking or to the entry. So one of the two always ends the
 * processor, or it waits for a SIPI that nobody sends any more. */
void processors_stop(void)
{
    uint32_t nobody = 0, self = 1 + apic_id_read();

    if (!__atomic_compare_exchange_n(&stopper, &nobody, self, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        if (nobody == self)
            return;
        processor_end();
    }
    processors_stopping = true;
    if (!going)
        framebuffer_stop(); /* the hypervisor's page tables do not map it */
    for (uint32_t i = 0; i < processors.count; i++)
        if (processors.apic_id[i] + 1 != self) {
            (void)apic_send(processors.apic_id[i], ICR_INIT);
            (void)apic_send(processors.apic_id[i], ICR_NMI);
        }
    for (unsigned i = 0; i < PARK_US; i++)
        (void)inb(PORT_DELAY);
    log_take_over();
}

/* Outside VMX operation, where it was in one: chipsets may reset the machine by an INIT, which VMX
 * operation blocks. */
void processor_end(void)
{
    if (read_cr4() & CR4_VMXE)
        __asm__ volatile("vmxoff" : : : "cc", "memory");
    halt_forever();
}
