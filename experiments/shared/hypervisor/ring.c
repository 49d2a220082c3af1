/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings' memory: one block of the pool, which is reserved memory of the guest's. The guest's
 * map has it read-only, so that reading costs no exit and nothing of the guest's can forge a
 * record.
 */
#include "experiments/shared/hypervisor/trace.h"

#include "hypercall.h"
#include "experiments/flow/hypervisor/level.h"
#include "experiments/memory/hypervisor/memory.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"

#define MIB (1UL << 20)
#define RING_HEADER_PAGES (TRACE_RING_HEADER_BYTES / PAGE_SIZE)

static struct range rings;  /* of all processors */
static uint32_t rings_used; /* the start is one processor after the other */

static uint64_t ring_bytes(const struct boot_info *bi)
{
    uint64_t mib = bi->options.trace_ring_mib;

    return TRACE_RING_HEADER_BYTES + (mib != 0 ? mib : 1) * MIB;
}

/* One that does not come has taken its ring, too. */
static uint32_t ring_count(const struct boot_info *bi)
{
    uint32_t most = bi->acpi.processors < PROCESSORS_MAX ? bi->acpi.processors : PROCESSORS_MAX;

    return bi->settings.processors > 1 ? most : 1;
}

uint64_t trace_readable_bytes(const struct boot_info *bi)
{
    bool off = bi->options.trace == TRACE_OFF && bi->options.memtrace == MEMTRACE_OFF;

    return off ? 0 : ring_count(bi) * ring_bytes(bi);
}

uint64_t trace_pages(const struct boot_info *bi, uint64_t tables)
{
    uint64_t gates = bi->options.trace == TRACE_FLOW ? ring_count(bi) : 0;

    return trace_readable_bytes(bi) / PAGE_SIZE + gates + memory_map_pages(bi, tables);
}

struct range trace_reserve(const struct boot_info *bi)
{
    uint64_t bytes = trace_readable_bytes(bi);

    if (bytes != 0) {
        rings = (struct range){(uint64_t)page_alloc(bytes / PAGE_SIZE), bytes};
        if (rings.base == 0)
            hypervisor_fault("the page pool is used up by the trace's rings");
    }
    return rings;
}

/* False: none is left, because firmware did not list this processor. */
static bool ring_setup(struct cpu *cpu)
{
    uint64_t bytes = ring_bytes(cpu->boot);
    uint32_t slot = __atomic_fetch_add(&rings_used, 1, __ATOMIC_RELAXED);
    struct trace_ring *ring = (struct trace_ring *)(rings.base + slot * bytes);
    struct trace_record *first = (struct trace_record *)((char *)ring + TRACE_RING_HEADER_BYTES);
    uint64_t capacity = (bytes - TRACE_RING_HEADER_BYTES) / sizeof(*first);

    if (slot >= ring_count(cpu->boot))
        return false;
    if (cpu->boot->options.trace == TRACE_OFF) /* the end divides no record of memory */
        capacity -= capacity % TRACE_MEMORY_FRAMES;

    *ring = (struct trace_ring){.level = TRACE_MEMORY, .magic = TRACE_RING_MAGIC, .version = TRACE_RING_VERSION,
                                .record_bytes = sizeof(*first), .capacity = capacity,
                                .apic_id = cpu->apic_id, .tsc_khz = cpu->tsc_khz};
    cpu->trace = (struct cpu_trace){.record = first, .first = first, .end = first + capacity,
                                    .ring = ring, .plain_entry = vmcs_read_natural(VMCS_HOST_RIP),
                                    .tick_ticks = cpu->boot->options.tick_ms * cpu->tsc_khz};
    return true;
}

static void say_level(const struct boot_info *bi)
{
    static const char *const memory[] = {
        [MEMTRACE_WRITES] = "writes", [MEMTRACE_READS] = "reads", [MEMTRACE_ALL] = "all accesses"};

    if (bi->options.trace == TRACE_OFF) {
        log_printf("pmuvisor: memory trace of %s: a ring of %lu MiB for each processor, read-only "
                   "for the guest\n", memory[bi->options.memtrace],
                   (ring_bytes(bi) - TRACE_RING_HEADER_BYTES) / MIB);
        return;
    }
    if (bi->options.memtrace != MEMTRACE_OFF)
        log_printf("pmuvisor: memtrace= is left out: there is a trace of exits, and one ring\n");
    log_printf("pmuvisor: trace of exits: a ring of %lu MiB for each processor, read-only for the "
               "guest; %s%s\n", (ring_bytes(bi) - TRACE_RING_HEADER_BYTES) / MIB,
               bi->options.trace == TRACE_FLOW
                   ? "HLT, loads of CR3 and external interrupts exit, MONITOR/MWAIT are hidden"
                   : "nothing more exits than without",
               bi->options.stats_cycles ? "; stats=cycles keeps none meanwhile" : "");
}

void trace_setup(struct cpu *cpu, const struct vmx_capability *c)
{
    uint32_t level = cpu->boot->options.trace;

    if ((level == TRACE_OFF && cpu->boot->options.memtrace == MEMTRACE_OFF) || !ring_setup(cpu))
        return;
    if (cpu == processor_cpu(0))
        say_level(cpu->boot);
    if (level == TRACE_OFF) {
        memory_setup(cpu, c);
        return;
    }
    if (level == TRACE_FLOW && !trace_flow_gates())
        hypervisor_fault("the page pool is used up by the trace's IDT");
    cpu->hypercalls |= (uint32_t)BIT(HYPERCALL_TRACE);
    trace_set_level(cpu, level);
}
