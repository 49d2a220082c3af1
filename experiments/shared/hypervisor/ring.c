/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings' memory: one block of the pool, which the guest sees as reserved memory. The guest's
 * map makes the block read-only. So reading costs no exit, and nothing in the guest can forge a
 * record.
 */
#include "experiments/shared/hypervisor/ring.h"

#define MIB (1UL << 20)

struct ring_options ring_options;
uint64_t ring_place;
static struct range rings;  /* the rings of all processors */
static uint32_t rings_used; /* number of rings in use; processors start one after the other */

uint64_t ring_mib(void) { return ring_options.mib != 0 ? ring_options.mib : 1; }

static uint64_t ring_bytes(void) { return TRACE_RING_HEADER_BYTES + ring_mib() * MIB; }

/* A processor that fails to start has still used its ring. */
uint32_t ring_count(const struct boot_info *bi)
{
    uint32_t most = bi->acpi.processors < PROCESSORS_MAX ? bi->acpi.processors : PROCESSORS_MAX;

    return bi->settings.processors > 1 ? most : 1;
}

bool ring_is_wanted(void)
{
    return ring_options.exits != TRACE_OFF || ring_options.memory != MEMTRACE_OFF;
}

uint64_t ring_readable(const struct boot_info *bi)
{
    return ring_is_wanted() ? ring_count(bi) * ring_bytes() : 0;
}

void ring_reserve(struct range readable) { rings = readable; }

bool ring_setup(struct cpu *cpu)
{
    uint64_t bytes = ring_bytes();
    uint32_t slot = __atomic_fetch_add(&rings_used, 1, __ATOMIC_RELAXED);
    struct trace_ring *ring = (struct trace_ring *)(rings.base + slot * bytes);
    struct trace_record *first = (struct trace_record *)((char *)ring + TRACE_RING_HEADER_BYTES);
    uint64_t capacity = (bytes - TRACE_RING_HEADER_BYTES) / sizeof(*first);

    if (slot >= ring_count(cpu->boot))
        return false;
    if (ring_options.exits == TRACE_OFF) /* a memory record must not cross the ring's end */
        capacity -= capacity % TRACE_MEMORY_FRAMES;

    *ring = (struct trace_ring){.level = TRACE_MEMORY,
                                .magic = TRACE_RING_MAGIC,
                                .version = TRACE_RING_VERSION,
                                .record_bytes = sizeof(*first),
                                .capacity = capacity,
                                .apic_id = cpu->apic_id,
                                .tsc_khz = cpu->tsc_khz};
    *trace_of(cpu) = (struct cpu_trace){.record = first,
                                        .first = first,
                                        .end = first + capacity,
                                        .ring = ring,
                                        .tick_ticks = cpu->boot->options.tick_ms * cpu->tsc_khz};
    memcpy(trace_of(cpu)->untraced, cpu->handlers, sizeof(cpu->handlers));
    return true;
}
