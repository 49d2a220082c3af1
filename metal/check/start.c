/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Goes the image's way from its options to the guest's entry, on a machine that is only told of:
 * the same functions in the same order as boot/main.c:prepare_hypervisor() and vmx/start/machine.c:
 * hypervisor_start(), with hardware.c in the place of hardware. Sources are included for their
 * static functions. Left out: what needs firmware or changes a processor.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/refusal.h"
#include "vmx/start/bring_up.c"
#include "vmx/start/machine.c"

#include "boot/acpi.h"
#include "metal/check/question.h"

#define LEAST_POOL (1ULL << 20) /* boot/main.c: not in the first MiB */

static const struct machine *machine;
static struct start_result *result;
static uint32_t boot_apic_id;

/* ---- what the image's files call, and a program under Linux cannot do ---- */

void hypervisor_fault(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    result->refused = true;
    format_text_v(result->refusal, sizeof(result->refusal), format, arguments);
    va_end(arguments);
    longjmp(question_end, 1);
}

struct descriptor_tables descriptors_load(UNUSED struct cpu *cpu, UNUSED const char *entry)
{
    return (struct descriptor_tables){0};
}

uint32_t apic_id_read(void) { return boot_apic_id; }

static const struct processor *with_apic_id(uint32_t id)
{
    uint32_t its;

    for (size_t i = 0; i < machine->processor_count; i++)
        if (find_apic_id(&machine->processors[i], &its) && its == id)
            return &machine->processors[i];
    return NULL;
}

void trampoline_write(UNUSED uint64_t page, UNUSED const struct start *s,
                      UNUSED void (*entry)(struct start *s))
{
}

/* The processor comes where Linux has it, and does what run_started_processor() has it do first. */
bool apic_start_processor(uint32_t apic_id, UNUSED uint64_t page, const volatile bool *arrived)
{
    const struct processor *p = with_apic_id(apic_id);
    struct start *s = (struct start *)((uintptr_t)arrived - offsetof(struct start, arrived));

    if (p == NULL)
        return false;
    hardware_is(machine, p);
    bool fits = processor_choose_controls(s) && matches_first_processor(s, first_start);
    s->arrived = true;
    s->state = fits ? READY : REFUSED;
    hardware_is(machine, boot_processor(machine));
    return true;
}

/* ---- the machine ---- */

static struct range memory_of(uint64_t size)
{
    const uint64_t alignment = LARGE_PAGE;
    void *at = mmap(NULL, size + alignment, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return (struct range){0};
    return (struct range){((uintptr_t)at + alignment - 1) & ~(alignment - 1), size};
}

/* Reserved ranges below the end of memory do not matter; those above are devices for the most. */
static uint64_t top_of_memory(void)
{
    uint64_t top = 0;

    for (size_t i = 0; i < machine->memory_count; i++)
        if (strncmp(machine->memory[i].kind, "Reserved", 8) != 0 &&
            strncmp(machine->memory[i].kind, "reserved", 8) != 0 && machine->memory[i].last >= top)
            top = machine->memory[i].last + 1;
    return top;
}

/* The largest block of memory for the pool. Firmware has some of it; less there cannot be. */
static uint64_t room_for_pool(void)
{
    uint64_t most = 0;

    for (size_t i = 0; i < machine->memory_count; i++) {
        const struct memory_line *l = &machine->memory[i];
        uint64_t first = l->first < LEAST_POOL ? LEAST_POOL : l->first;
        uint64_t end = l->last >= UINT32_MAX ? 1ULL << 32 : l->last + 1;

        first = (first + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
        if (strcmp(l->kind, KIND_RAM) == 0 && first < end && end - first > most)
            most = end - first;
    }
    return most;
}

static bool refused(const struct refusal *r)
{
    result->refused = true;
    snprintf(result->refusal, sizeof(result->refusal), "%s", r->line);
    return false;
}

/* boot/main.c: read_options(). */
static bool read_options(struct options *o, const char *config, const char *load_options,
                         struct refusal *r)
{
    options_default(o);
    return (config == NULL || options_parse(o, config, strlen(config), "pmuvisor.cfg", r)) &&
           (load_options == NULL ||
            options_parse(o, load_options, strlen(load_options), "load options", r));
}

/* A listing has processors, but no MADT: those can be looked at. */
static void list_processors(struct acpi_facts *facts)
{
    uint32_t id;

    for (size_t i = 0; i < machine->processor_count && i < PROCESSORS_MAX; i++)
        if (find_apic_id(&machine->processors[i], &id))
            facts->apic_id[facts->processors++] = id;
}

/* boot/main.c: prepare_hypervisor(), without files and allocation. */
static bool prepare_hypervisor(struct boot_info *bi, const char *config, const char *load_options)
{
    struct refusal r;

    if (!read_options(&bi->options, config, load_options, &r))
        return refused(&r);
    bi->memory_top = top_of_memory();
    acpi_facts_read(acpi_make(machine), &bi->acpi);
    acpi_warn_of_damage(bi->acpi.rsdp);
    if (!machine->tables_complete && find_table(machine, "APIC") == NULL)
        list_processors(&bi->acpi);
    cpuid_log_unknown_bits();
    if (!hypervisor_check_requirements(bi, &bi->settings, &r))
        return refused(&r);
    uint64_t size = hypervisor_pool_size(bi), room = room_for_pool();
    if (machine->memory_count > 0 && size > room) {
        refuse(&r, REFUSE_NO_MEMORY,
               "memory for the hypervisor: found %lu KiB as the largest block below 4 GiB, wanted "
               "%lu KiB; use a machine with more memory",
               room >> 10, size >> 10);
        return refused(&r);
    }
    bi->pool = memory_of(size);
    bi->trampoline = memory_of(PAGE_SIZE);
    if (bi->pool.size == 0 || bi->trampoline.size == 0)
        hypervisor_fault("pmuvisor-check: out of memory");
    return true;
}

/* vmx/start/machine.c: hypervisor_start(), up to the guest's entry. */
static void start(struct boot_info *bi)
{
    struct refusal r;

    result->late = true;
    units_reset(bi->pool);
    page_pool_set_exhausted_hook(report_pool_exhausted);
    page_pool_init(bi->pool);
    struct start *s = processor_new(bi, apic_id_read(), host_paging_new());
    struct cpu *cpu = s->cpu;

    if (!processor_choose_controls(s)) {
        refused(&s->refusal);
        return;
    }
    cpu->ept_root = build_ept_and_vtd(bi, &s->capability);
    if (bi->options.tick_ms != 0)
        cpu->tsc_khz = tsc_khz(bi->acpi.pm_timer);
    processor_set_up_exits(s);
    processors_start(bi, s);
    if (!check_guest(bi, &processors, &r)) {
        refused(&r);
        return;
    }
    pmu_context_setup(cpu);
    nmi_setup(cpu, true);
    tick_setup(cpu, vmx_allows_control(&s->capability, SET_PIN, PIN_PREEMPTION_TIMER),
               s->capability.misc);
    log_configuration(cpu);
}

void start_image(const struct machine *m, const char *config, const char *load_options,
                 struct start_result *out)
{
    static struct boot_info bi; /* outlives the jump */

    machine = m;
    result = out;
    *result = (struct start_result){0};
    bi = (struct boot_info){0};
    processors.count = 0;
    hardware_is(m, boot_processor(m));
    if (!find_apic_id(boot_processor(m), &boot_apic_id))
        boot_apic_id = 0;
    if (setjmp(question_end) == 0 && prepare_hypervisor(&bi, config, load_options))
        start(&bi);
}
