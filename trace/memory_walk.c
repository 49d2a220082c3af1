/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a page walk does to the guest's tables. The instruction has not accessed anything yet, so it
 * is not stepped: root mode sets the accessed or dirty bit as the processor was about to, and the
 * walk, begun anew, finds it set. Whether the access is a write is not known where the bits of the
 * last entry are set: A first, then D where the processor comes back for it. Walks that read a page
 * that may not be read get it opened for reads for good.
 * SDM Vol. 3, "Accessed and Dirty Flags"; "Exit Qualification for EPT Violations".
 */
#include "trace/memory_record.h"

#include "mm/paging.h"
#include "vmx/exit/exit.h"

static uint64_t with_flags(uint64_t entry, bool last)
{
    if (!(entry & PTE_A))
        return entry | PTE_A;
    return last && entry & PTE_RW ? entry | PTE_D : entry;
}

bool memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa)
{
    uint64_t address = gpa & ~(uint64_t)(sizeof(uint64_t) - 1), last = 0, ignored;
    uint64_t *entry = memory_of_guest(cpu, address);

    if (entry == NULL) {
        exit_ept_violation(cpu);
        return false;
    }
    if (!(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID))
        memory_keep_nmi_blocked(cpu, qualification);
    if (!(qualification & EPT_VIOLATION_WRITE)) {
        memory_map_let_read(cpu, address);
        return true;
    }
    if (!memory_translate(cpu, gla, &ignored, &last))
        return true; /* another processor has changed the tables: the walk comes to something else */
    uint64_t was = __atomic_load_n(entry, __ATOMIC_RELAXED), now = with_flags(was, address == last);
    if (now == was ||
        !__atomic_compare_exchange_n(entry, &was, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return true;
    if (cpu->memory.mode == MEMTRACE_READS || cpu->memory.cr3 != 0)
        return true; /* a range of linear addresses: where the entry has one is not known */
    struct trace_memory *record =
        memory_record_begin(cpu, TRACE_WRITE | TRACE_WALK, gla, address);
    record->bytes = sizeof(*entry);
    memory_record_publish(cpu);
    return true;
}
