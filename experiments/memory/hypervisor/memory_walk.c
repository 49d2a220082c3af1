/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Handles a page walk's accesses to the guest's tables. The instruction itself has not accessed
 * anything yet, so the instruction is not stepped. Root mode sets the accessed or dirty bit, as the
 * processor was about to do. The walk then starts again and finds the bit set.
 *
 * Nothing tells whether the walk wants to set the accessed bit or the dirty bit. If the accessed
 * bit is clear, root mode sets the accessed bit. If the accessed bit is set, root mode leaves the
 * entry alone once, because another processor may just have set the bit. If the walk returns to the
 * same entry, the walk wants to set the dirty bit. If a walk reads a page that denies reads, the
 * closed map allows reads of this page for good. A record says so, because after that no read of
 * the page is seen. SDM Vol. 3, "Accessed and Dirty Flags"; "Exit Qualification for EPT
 * Violations".
 */
#include "experiments/memory/hypervisor/memory_record.h"

#include "mm/paging.h"

/* Returns whether this processor's previous call was for the same entry, with at most one other EPT
 * violation in between. (The guest repeats the whole instruction, so the instruction's own read may
 * cause that violation.) Call this function only if the entry's accessed bit is set. */
static bool is_repeated_walk(struct cpu *cpu, uint64_t address)
{
    struct cpu_memory *m = memory_of(cpu);
    uint64_t count = cpu->exits[EXIT_REASON_EPT_VIOLATION];
    bool back = m->walked == address && count - m->walked_at <= 2;

    m->walked = address;
    m->walked_at = count;
    return back;
}

/* Returns whether the walk may want to set the dirty bit. Only the entry that maps the page has a
 * dirty bit, and a walk sets this bit only if the page may be written. SDM Vol. 3, "Determination
 * of Access Rights". */
static bool may_be_dirty(uint64_t entry, enum memory_entry place)
{
    return !(entry & PTE_D) && place == ENTRY_LAST &&
           (entry & PTE_RW || !(vmcs_read_natural(VMCS_GUEST_CR0) & CR0_WP));
}

static void record_walk(struct cpu *cpu, uint32_t direction, uint64_t gla, uint64_t address)
{
    memory_record_begin(cpu, direction | TRACE_WALK, gla, address)->bytes = sizeof(uint64_t);
    memory_record_publish(cpu);
}

bool memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa)
{
    uint64_t address = gpa & ~(uint64_t)(sizeof(uint64_t) - 1),
             *entry = memory_host_address(address);

    if (!(qualification & EPT_VIOLATION_WRITE)) {
        if (memory_map_allow_read(cpu, address))
            record_walk(cpu, TRACE_READ, gla, address);
        return true;
    }
    uint64_t was = __atomic_load_n(entry, __ATOMIC_RELAXED), now = was | PTE_A;
    enum memory_entry place = memory_entry_of(cpu, gla, address);

    if (place == ENTRY_OF_ANOTHER || !(was & PTE_P))
        return false;
    if (now == was) {
        if (!is_repeated_walk(cpu, address))
            return true;
        if (!may_be_dirty(was, place))
            return false;
        now |= PTE_D;
    }
    /* Record nothing if another processor changed the entry first, if the mode is MEMTRACE_READS,
     * or if the range is guest-linear: the linear address of the entry is not known. */
    if (!__atomic_compare_exchange_n(entry, &was, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        memory_of(cpu)->mode == MEMTRACE_READS || memory_of(cpu)->cr3 != 0)
        return true;
    record_walk(cpu, TRACE_WRITE, gla, address);
    return true;
}
