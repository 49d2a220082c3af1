/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Prints the rings on the console at the end of the run, for a reader outside the guest's machine
 * (experiments/flow/analysis/rings_on_console.py). ACPI Specification, "PM1 Control Registers".
 */
#include "experiments/flow/hypervisor/dump.h"

#include "experiments/flow/hypervisor/level.h"
#include "lib/acpi.h"
#include "vmx/exit/exit.h"
#include "vmx/root/end.h"

#define WORDS_OF_RECORD (sizeof(struct trace_record) / sizeof(uint64_t))

static exit_handler below; /* the handler that dump_io() replaced, the same on all processors */

static void dump_ring(const struct trace_ring *ring)
{
    const uint64_t *words = (const uint64_t *)((const char *)ring + TRACE_RING_HEADER_BYTES);
    uint64_t count = ring->written < ring->capacity ? ring->written : ring->capacity;

    if (count > dump_records)
        count = dump_records;
    log_printf("trace_dump: ring apic_id=%u level=%u tsc_khz=%lu first=%lu records=%lu\n",
               ring->apic_id, ring->level, ring->tsc_khz, ring->written - count, count);
    for (uint64_t n = ring->written - count; n < ring->written; n++) {
        const uint64_t *record = words + n % ring->capacity * WORDS_OF_RECORD;
        log_printf("trace_dump: %lx %lx %lx %lx\n", record[0], record[1], record[2], record[3]);
    }
    log_printf("trace_dump: end\n");
}

/* Returns whether the guest writes S5's sleep type with SLP_EN to PM1a. An operating system does
 * this by one write of the whole register. */
static bool is_power_off_request(const struct cpu *cpu)
{
    const struct acpi_facts *acpi = &cpu->boot->acpi;
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t value = cpu->gpr[GPR_RAX];

    return !(qualification & (IO_IN | IO_STRING)) && acpi->pm1a_control != 0 &&
           (uint16_t)(qualification >> IO_PORT_SHIFT) == acpi->pm1a_control && value & PM1_SLP_EN &&
           (value >> PM1_SLP_TYP_SHIFT & PM1_SLP_TYP_MASK) == acpi->s5_type[0];
}

static void dump_io(struct cpu *cpu)
{
    static bool dumped; /* the power-off takes some time, and the guest may write again */

    if (!dumped && is_power_off_request(cpu)) {
        dumped = true;
        for (uint32_t i = 0; i < processors.count; i++)
            if (trace_of(get_cpu_by_index(i))->ring != NULL)
                dump_ring(trace_of(get_cpu_by_index(i))->ring);
    }
    below(cpu);
}

void trace_add_dump_row(struct cpu *cpu)
{
    if (dump_records == 0)
        return;
    below = cpu->handlers[EXIT_REASON_IO_INSTRUCTION];
    cpu->handlers[EXIT_REASON_IO_INSTRUCTION] = dump_io;
}
