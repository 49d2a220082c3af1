/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace as Schmidt describes it (thesis, KIT, 2017, section 4.2.4), with this
 * hypervisor's maps and records: a page that is written is unlocked in the one map that there is,
 * the trap flag is set, and behind the instruction the page is locked again and translations are
 * flushed. Nothing keeps events from coming first. Another exit than the trap's rolls back, and the
 * count of retired instructions says whether the trap came behind the instruction. For one
 * processor, as there.
 * What it costs is measured, and its defects must be seen: what an event pushes while a page is
 * open, and writes that did not happen.
 */
#include "mm/paging.h"
#include "msr.h"
#include "experiments/memory/hypervisor/memory_record.h"
#include "vmx/exit/exit.h"

#define OPEN_MAX 4 /* pages that an instruction writes */

void __real_memory_exit_other(struct cpu *cpu);
void __wrap_memory_exit_other(struct cpu *cpu);
void __wrap_memory_exit_write(struct cpu *cpu);
void __wrap_memory_exit_trap(struct cpu *cpu);

static uint64_t *unlocked[OPEN_MAX];
static unsigned unlocked_count;

/* The entry that maps it, of whatever size. */
static uint64_t *leaf_of(const struct cpu *cpu, uint64_t physical)
{
    uint64_t *table = (uint64_t *)(memory_of(cpu)->closed & EPT_ADDRESS);
    uint64_t *entry = NULL;

    for (unsigned level = TABLE_LEVELS; level > 0; level--) {
        entry = &table[entry_index(physical, level)];
        if (*entry & EPT_PAGE)
            break;
        table = (uint64_t *)(*entry & EPT_ADDRESS);
    }
    return entry;
}

static void step(bool on)
{
    uint32_t controls = vmcs_read_32(VMCS_PRIMARY_CONTROLS);

    vmcs_write_32(VMCS_PRIMARY_CONTROLS, on ? controls | PRIMARY_MONITOR_TRAP_FLAG
                                            : controls & ~(uint32_t)PRIMARY_MONITOR_TRAP_FLAG);
}

static void lock_again(void)
{
    while (unlocked_count > 0)
        *unlocked[--unlocked_count] &= ~(uint64_t)EPT_WRITE;
    flush_guest_translations();
}

/* False: it is no memory of the guest's. */
static bool violation(struct cpu *cpu)
{
    uint64_t physical = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);

    if (unlocked_count == OPEN_MAX || memory_find_guest(cpu, physical) == NULL)
        return false;
    (void)memory_record_begin(cpu, TRACE_WRITE, vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS),
                              physical);
    uint64_t *entry = leaf_of(cpu, physical);
    *entry |= EPT_WRITE;
    unlocked[unlocked_count++] = entry;
    step(true);
    /* As KVM does: an event whose delivery an exit has ended is injected. */
    if (vectoring & INTERRUPTION_VALID)
        deliver_event_again(cpu, vectoring);
    return true;
}

static void roll_back(struct cpu *cpu)
{
    lock_again();
    step(false);
    memory_of(cpu)->begun = 0;
}

static void trap(struct cpu *cpu)
{
    const struct trace_memory *first = (const struct trace_memory *)trace_of(cpu)->record;
    bool retired = (rdmsr(IA32_FIXED_CTR0) & BITS(47, 0)) != first->retired;

    /* A guest that turns the counter off has not turned off the rest. */
    if (!retired && vmcs_read_natural(VMCS_GUEST_RIP) - first->rip > CODE_BYTES) {
        roll_back(cpu);
        return;
    }
    lock_again();
    step(false);
    memory_record_publish(cpu);
}

void __wrap_memory_exit_write(struct cpu *cpu)
{
    if (!violation(cpu))
        exit_ept_violation(cpu);
}

void __wrap_memory_exit_trap(struct cpu *cpu)
{
    if (unlocked_count > 0)
        trap(cpu);
    else
        __real_memory_exit_other(cpu);
}

void __wrap_memory_exit_other(struct cpu *cpu)
{
    if (unlocked_count > 0)
        roll_back(cpu);
    __real_memory_exit_other(cpu);
}
