/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=pages: records which pages are written, from the processor's page-modification log. Each
 * page is recorded once. The trace's map is a copy in small pages whose dirty flags are clear. The
 * processor logs a page when it sets the page's dirty flag, and exits when its log is full, that
 * is, after every 512 pages. The log does not say who wrote, where in the page, or when. Page walks
 * count as writes to the tables that they read. SDM Vol. 3, "Accessed and Dirty Flags for EPT";
 * "Page-Modification Logging".
 */
#include "experiments/memory/hypervisor/memory_record.h"

#define LAST 511 /* index of the log's first entry; the processor fills the log downwards */
#define LOGGED (LAST + 1)

static void restart_log(void) { vmcs_write_raw(VMCS_GUEST_PML_INDEX, LAST); }

void memory_pages_flush(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);
    unsigned count = (LAST - (unsigned)vmcs_read_raw(VMCS_GUEST_PML_INDEX)) & UINT16_MAX;

    for (unsigned i = 0; i < count && i < LOGGED; i++) {
        uint64_t page = m->log[LAST - i];
        struct trace_memory *record = memory_record_place(cpu, 0);

        if (!memory_is_traced(cpu, m->first, page))
            continue;
        memory_record_place_of(record, 0, 0, TRACE_WRITE | TRACE_PAGE);
        memory_record_code(record, 0, 0, 0);
        memory_record_time(record, false);
        record->bytes = PAGE_SIZE;
        record->gla = 0;
        record->gpa = page;
        m->begun = 1;
        memory_record_publish(cpu);
    }
    restart_log();
}

static void set_page_logging(bool on)
{
    uint32_t secondary = vmcs_read_32(VMCS_SECONDARY_CONTROLS) & ~(uint32_t)SECONDARY_ENABLE_PML;

    vmcs_write_32(VMCS_SECONDARY_CONTROLS, on ? secondary | SECONDARY_ENABLE_PML : secondary);
}

void memory_pages_start(struct cpu *cpu)
{
    vmcs_write_raw(VMCS_PML_ADDRESS, (uint64_t)memory_of(cpu)->log);
    restart_log();
    set_page_logging(true);
}

void memory_pages_stop(struct cpu *cpu)
{
    memory_pages_flush(cpu);
    set_page_logging(false);
}
