/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Records exits. A recording row replaces each row of the table of handlers. The recording row
 * begins the record, calls the replaced handler, and ends the record. It reads the TSC as early as
 * a row can: only the code from the exit to the row, with the bookkeeping of NMIs if there is any,
 * runs before this read.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

#define FLAGS BITS(4, 0) /* bits of the guest's interruptibility state */

/* Every processor has these fields, so no VMREAD here can fail. */
static inline void store_field(uint64_t *to, uint32_t encoding)
{
    __asm__ volatile("vmread %1, %0" : "=m"(*to) : "r"((uint64_t)encoding) : "cc");
}

static __attribute__((noinline)) void record_exit(struct cpu *cpu, uint64_t reason, uint32_t detail)
{
    struct cpu_trace *trace = trace_of(cpu);
    struct trace_record *record = trace->record;
    uint32_t *half = (uint32_t *)record;

    record->detail = detail;
    __asm__ volatile("rdtsc" : "=a"(half[0]), "=d"(half[1]));
    store_field((uint64_t *)record + 1, VMCS_GUEST_RIP);
    store_field((uint64_t *)record + 2, VMCS_GUEST_CR3); /* the next two stores set the top bytes */
    record->reason = (uint8_t)reason;
    record->flags = cpu->blocking & (uint32_t)FLAGS;
    trace->under[reason](cpu);
    record = trace->record;
    record->root_time = (uint32_t)rdtsc() - (uint32_t)record->tsc;
    record++;
    trace->record = __builtin_expect(record == trace->end, 0) ? trace->first : record;
    /* Store the count after the record. Stores become visible in order, so a reader that sees the
     * count sees the record, too. */
    __asm__ volatile("incq %0" : "+m"(trace->ring->written) : : "cc", "memory");
}

/* Returns the record's `detail`, which depends on the reason (trace_ring.h). */
static inline uint32_t read_exit_detail(const struct cpu *cpu, uint32_t reason)
{
    switch (reason) {
    case EXIT_REASON_CPUID:
    case EXIT_REASON_VMCALL:
        return (uint32_t)cpu->gpr[GPR_RAX];
    case EXIT_REASON_RDMSR:
    case EXIT_REASON_WRMSR:
        return (uint32_t)cpu->gpr[GPR_RCX];
    case EXIT_REASON_IO_INSTRUCTION:
        return (uint32_t)vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    case EXIT_REASON_EPT_VIOLATION:
        return (uint32_t)(vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS) / PAGE_SIZE);
    default:
        return 0;
    }
}

/* One row for each reason, so that no row has to read the reason again. */
#define ROW(name, number)                                                                          \
    static void row_##name(struct cpu *cpu)                                                        \
    {                                                                                              \
        record_exit(cpu, number, read_exit_detail(cpu, number));                                   \
    }
VMX_EXIT_REASONS(ROW)
ROW(past_the_table, EXIT_REASON_COUNT)

void trace_exits_rows(struct cpu *cpu)
{
#define ROW_OF(name, number) [number] = row_##name,
    static const exit_handler rows[EXIT_REASON_COUNT + 1] = {
        VMX_EXIT_REASONS(ROW_OF) ROW_OF(past_the_table, EXIT_REASON_COUNT)};
    exit_handler *under = trace_of(cpu)->under;

    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++) {
        under[reason] = cpu->handlers[reason];
        if (rows[reason] != NULL)
            cpu->handlers[reason] = rows[reason];
    }
}
