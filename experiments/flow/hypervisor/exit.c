/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The record of an exit: a row over each row of the table. It begins the record, calls the handler
 * that it lies over, and ends the record. It reads the TSC as early as a row can: before it come
 * only the way in, and the bookkeeping of NMIs, if there is any.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

#define FLAGS BITS(4, 0) /* of the guest's interruptibility state */

/* The fields are there on each processor: no VMREAD here can fail. */
static inline void store_field(uint64_t *to, uint32_t encoding)
{
    __asm__ volatile("vmread %1, %0" : "=m"(*to) : "r"((uint64_t)encoding) : "cc");
}

static __attribute__((noinline)) void recorded(struct cpu *cpu, uint64_t reason, uint32_t detail)
{
    struct cpu_trace *trace = trace_of(cpu);
    struct trace_record *record = trace->record;
    uint32_t *half = (uint32_t *)record;

    record->detail = detail;
    __asm__ volatile("rdtsc" : "=a"(half[0]), "=d"(half[1]));
    store_field((uint64_t *)record + 1, VMCS_GUEST_RIP);
    store_field((uint64_t *)record + 2, VMCS_GUEST_CR3); /* its highest bytes are the next two's */
    record->reason = (uint8_t)reason;
    record->flags = cpu->blocking & (uint32_t)FLAGS;
    trace->under[reason](cpu);
    record = trace->record;
    record->root_time = (uint32_t)rdtsc() - (uint32_t)record->tsc;
    record++;
    trace->record = __builtin_expect(record == trace->end, 0) ? trace->first : record;
    /* After the record: stores are seen in order. */
    __asm__ volatile("incq %0" : "+m"(trace->ring->written) : : "cc", "memory");
}

/* What says what the exit is about. */
static inline uint32_t detail_of(const struct cpu *cpu, uint32_t reason)
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

/* A row for each reason, so that none has to ask for it once more. */
#define ROW(name, number)                                                                          \
    static void row_##name(struct cpu *cpu) { recorded(cpu, number, detail_of(cpu, number)); }
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
