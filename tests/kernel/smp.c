/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds the other processors in the MADT, starts them by INIT and SIPI, and gives them work. Writes
 * the start code to pages below 1 MiB that the memory map gives. SDM Vol. 3, "MP Initialization
 * Protocol Algorithm for MP Systems"; ACPI specification, "Multiple APIC Description Table (MADT)".
 */
#include "smp.h"

#include <string.h>

#include "console/log.h"
#include "guest/e820.h"
#include "lib/acpi.h"

#define PAGE_MASK 0xfffULL
#define FIRST_PAGE 0x2000u /* below: vectors of the BIOS and its data */
#define LOW_END 0xa0000u
#define WAKE_VECTOR 0xf0
#define SPURIOUS_VECTOR 0xff
#define SIPIS 2
#define SIPI_GAP 20  /* microseconds, as Linux waits after each */
#define INIT_GAP 100 /* and before the first one, which is the only one where there is one */
#define APIC_IDS 256
#define START_LIMIT 1000000 /* iterations until a processor counts as not coming up */
#define PAGE_SHIFT 12
#define LEAF_TSC 0x15
#define LEAF_FREQUENCY 0x16
#define MEGA 1000000u
#define TSC_DEFAULT_MHZ 1000u

struct processor processors[KERNEL_PROCESSORS];
unsigned processor_count;

static uint64_t page_table;
static struct start_own start_own[APIC_IDS];
static volatile unsigned arrived, generation;
static const struct job *each_job;
static void (*each_run)(const struct job *job);

struct processor *smp_self(void)
{
    struct processor *self;

    __asm__ volatile("mov %%gs:0, %0" : "=r"(self));
    return self;
}

static uint64_t tsc_mhz(void)
{
    uint32_t last = cpuid(0, 0).eax;

    if (last >= LEAF_TSC) {
        struct cpuid_result r = cpuid(LEAF_TSC, 0);
        if (r.eax != 0 && r.ebx != 0 && r.ecx != 0)
            return (uint64_t)r.ecx * r.ebx / r.eax / MEGA;
    }
    if (last >= LEAF_FREQUENCY && (cpuid(LEAF_FREQUENCY, 0).eax & 0xffff) != 0)
        return cpuid(LEAF_FREQUENCY, 0).eax & 0xffff;
    return TSC_DEFAULT_MHZ;
}

void smp_delay(uint64_t microseconds)
{
    static uint64_t mhz;

    if (mhz == 0)
        mhz = tsc_mhz();
    for (uint64_t end = rdtsc() + microseconds * mhz; rdtsc() < end;)
        __asm__ volatile("pause");
}

static bool in_use(uint64_t page)
{
    const struct boot_params *bp = machine_boot_params();
    uint64_t line = bp->hdr.cmd_line_ptr | (uint64_t)bp->ext_cmd_line_ptr << 32;

    return (page < (uintptr_t)bp + sizeof(*bp) && (uintptr_t)bp < page + PAGE_SIZE) ||
           (page < line + COMMAND_LINE_MAX && line < page + PAGE_SIZE);
}

uint64_t smp_page(unsigned n)
{
    const struct boot_params *bp = machine_boot_params();

    for (uint64_t page = LOW_END - PAGE_SIZE; page >= FIRST_PAGE; page -= PAGE_SIZE) {
        bool ram = false;
        for (unsigned i = 0; i < bp->e820_entries; i++) {
            const struct boot_e820_entry *e = &bp->e820_table[i];
            ram = ram ||
                  (e->type == E820_RAM && e->addr <= page && page + PAGE_SIZE <= e->addr + e->size);
        }
        if (ram && !in_use(page) && n-- == 0)
            return page;
    }
    return 0;
}

static void wake(const struct processor *p)
{
    apic_send(p->apic_id, ICR_FIXED | ICR_ASSERT | WAKE_VECTOR);
}

/* Where the start code ends up, on the processor's own stack. */
static _Noreturn void other_main(struct processor *self)
{
    cpu_setup_other(self->number);
    wrmsr(IA32_GS_BASE, (uintptr_t)self);
    smp_keep_apic(self);
    apic_write(APIC_SVR, SVR_SOFTWARE_ENABLE | SPURIOUS_VECTOR);
    self->fault_resume = 0;
    self->depth = 0;
    self->starts++;
    for (;;) {
        processor_work work = self->work;
        if (work == NULL) {
            smp_sleep();
            continue;
        }
        self->work = NULL;
        work(self);
        self->done++;
        wake(&processors[0]);
    }
}

void smp_init(const struct processor *p)
{
    apic_send(p->apic_id, ICR_INIT | ICR_LEVEL | ICR_ASSERT);
    apic_send(p->apic_id, ICR_INIT | ICR_LEVEL);
}

void smp_sipi(const struct processor *p, uint64_t page)
{
    apic_send(p->apic_id, ICR_STARTUP | ICR_ASSERT | (uint32_t)(page >> PAGE_SHIFT));
}

void smp_prepare(struct processor *p, uint64_t page)
{
    struct start_parameters parameters = {
        .cr3 = (uint32_t)page_table,
        .entry = (uintptr_t)other_main,
        .own = (uintptr_t)start_own,
    };

    memcpy((void *)page, start_code, (size_t)(start_code_end - start_code));
    memcpy((void *)(page + (uint64_t)(start_parameters - start_code)), &parameters,
           sizeof(parameters));
    start_own[p->apic_id] = (struct start_own){
        (uintptr_t)ap_stacks + (uint64_t)(p->number + 1) * AP_STACKS, (uintptr_t)p};
    p->page = page;
    p->starts_wanted = p->starts + 1;
    p->work = NULL;
}

void smp_start_all(const struct processor *first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        smp_init(&first[i]);
    for (unsigned sipi = 0; sipi < SIPIS; sipi++) {
        for (unsigned i = 0; i < count; i++)
            smp_sipi(&first[i], first[i].page);
        smp_delay(SIPI_GAP);
    }
}

void smp_start_broadcast(uint64_t page, unsigned sipis)
{
    apic_send_others(ICR_INIT | ICR_LEVEL | ICR_ASSERT);
    smp_delay(INIT_GAP);
    for (unsigned sipi = 0; sipi < sipis; sipi++) {
        apic_send_others(ICR_STARTUP | ICR_ASSERT | (uint32_t)(page >> PAGE_SHIFT));
        smp_delay(SIPI_GAP);
    }
}

bool smp_came_up(struct processor *p)
{
    for (unsigned i = 0; i < START_LIMIT && p->starts < p->starts_wanted; i++)
        __asm__ volatile("pause");
    p->there = p->starts == p->starts_wanted;
    return p->there;
}

bool smp_restart(struct processor *p, uint64_t page)
{
    smp_prepare(p, page);
    smp_start_all(p, 1);
    return smp_came_up(p);
}

static void add(uint32_t id, uint32_t flags)
{
    if (!(flags & ACPI_MADT_ENABLED) || id == processors[0].apic_id || id >= APIC_IDS ||
        processor_count == KERNEL_PROCESSORS)
        return;
    struct processor *p = &processors[processor_count];
    *p = (struct processor){.self = p, .number = processor_count, .apic_id = id};
    processor_count++;
}

static void find(void)
{
    struct acpi_madt *madt = machine_rsdp() == 0
                                 ? NULL
                                 : (void *)acpi_find_table(machine_rsdp(), "APIC", sizeof(*madt));
    const struct acpi_madt_entry *e;

    if (madt == NULL)
        return;
    for (struct acpi_madt_entry *next = acpi_madt_next(madt, NULL); next != NULL;
         next = acpi_madt_next(madt, next)) {
        e = next;
        if (e->type == ACPI_MADT_LOCAL_APIC && e->length >= sizeof(struct acpi_madt_local_apic))
            add(((const struct acpi_madt_local_apic *)e)->apic_id,
                ((const struct acpi_madt_local_apic *)e)->flags);
        else if (e->type == ACPI_MADT_LOCAL_X2APIC &&
                 e->length >= sizeof(struct acpi_madt_local_x2apic))
            add(((const struct acpi_madt_local_x2apic *)e)->x2apic_id,
                ((const struct acpi_madt_local_x2apic *)e)->flags);
    }
}

unsigned smp_start(void)
{
    uint64_t page;

    wrmsr(IA32_GS_BASE, (uintptr_t)&processors[0]);
    if (processor_count != 0)
        return processor_count;
    page_table = read_cr3();
    cpu_setup_smp();
    processors[0] = (struct processor){.self = &processors[0], .apic_id = apic_id(), .there = true};
    processor_count = 1;
    find();
    page = smp_page(0);
    if (page == 0)
        processor_count = 1;
    for (unsigned i = 1; i < processor_count; i++)
        if (!smp_restart(&processors[i], page))
            tap_note("processor %u, APIC ID %u: came up %lu times", i, processors[i].apic_id,
                     processors[i].starts);
    return processor_count;
}

void smp_leave_with(struct processor *p, processor_work work)
{
    p->work = work;
    wake(p);
}

static void wait_for(const struct processor *p, uint64_t done)
{
    while (p->done != done)
        smp_sleep();
}

void smp_run_on(struct processor *p, processor_work work)
{
    uint64_t done = p->done + 1;

    smp_leave_with(p, work);
    wait_for(p, done);
}

void smp_run_all(processor_work work)
{
    uint64_t done[KERNEL_PROCESSORS];

    arrived = 0;
    for (unsigned i = 1; i < processor_count; i++) {
        done[i] = processors[i].done + 1;
        smp_leave_with(&processors[i], work);
    }
    work(&processors[0]);
    for (unsigned i = 1; i < processor_count; i++)
        wait_for(&processors[i], done[i]);
}

void smp_spin(struct processor *self)
{
    for (;;)
        self->alive++;
}

void smp_nothing(struct processor *self) { (void)self; }

void smp_barrier(processor_work meanwhile)
{
    unsigned now = generation;

    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == processor_count) {
        arrived = 0;
        __atomic_store_n(&generation, now + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) == now)
        meanwhile(smp_self());
}

/* A test that knows one processor only, on this one, as if it were that one. */
static void alone(struct processor *self)
{
    cpu_current(self->number);
    cpu_handlers(true);
    each_run(each_job);
    cpu_handlers(false);
}

void smp_each(const struct job *job, void (*run)(const struct job *job))
{
    struct job named = *job;

    for (unsigned i = 1; i < processor_count; i++) {
        format_text(named.name, sizeof(named.name), "%s@%u", job->name, i);
        each_job = &named;
        each_run = run;
        smp_run_on(&processors[i], alone);
    }
    cpu_current(0);
}
