/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy=status works like msr+nmi, except that the guest's accesses to IA32_PERF_GLOBAL_STATUS
 * exit. These are reads of the register, and the writes that clear and set its bits. The handlers
 * make the accesses on the hardware, so the guest sees what it would see without the exits. A
 * hypervisor that shares the overflow bits with its guest needs these exits.
 *
 * An NMI may arrive at any instruction here, either for the host or as a PMI for the guest. Nothing
 * counts in root mode, so the register holds what the guest's instruction would have found. Each
 * handler accesses the register once. So an NMI before that access is an NMI before the guest's
 * instruction, and an NMI after the access is an NMI after the instruction. pmu_pmi_raised()
 * recognizes the guest's PMI by the same bits. Before the write that clears the bits,
 * pmu_pmi_raised() finds the bits set, and the guest gets its NMI. By that write, the guest itself
 * says that it no longer needs the bits. Neither the write that clears bits nor the write that sets
 * bits raises a PMI. SDM Vol. 3, "Architectural Performance Monitoring Version 4"; "Performance
 * Monitoring".
 */
#include "experiment.h"

#include "vmx/exit/exit.h"
#include "vmx/msr_bitmap.h"
#include "vmx/root/fault.h"

/* The handlers that the two rows replaced, for each processor. */
struct cpu_status {
    exit_handler rdmsr; /* the handler that status_rdmsr() replaced */
    exit_handler wrmsr; /* the handler that status_wrmsr() replaced */
};
static uint64_t place;

static struct cpu_status *status_of(struct cpu *cpu)
{
    return (struct cpu_status *)((uintptr_t)cpu + place);
}

static void status_rdmsr(struct cpu *cpu)
{
    uint64_t value;

    if ((uint32_t)cpu->gpr[GPR_RCX] != IA32_PERF_GLOBAL_STATUS) {
        status_of(cpu)->rdmsr(cpu);
        return;
    }
    value = rdmsr(IA32_PERF_GLOBAL_STATUS);
    cpu->gpr[GPR_RAX] = (uint32_t)value;
    cpu->gpr[GPR_RDX] = value >> 32;
    skip_instruction(cpu);
}

/* The processor itself decides which bits are reserved, and whether IA32_PERF_GLOBAL_STATUS_SET
 * exists. Before version 4, this MSR does not exist. */
static void status_wrmsr(struct cpu *cpu)
{
    uint32_t index = (uint32_t)cpu->gpr[GPR_RCX];

    if (index != IA32_PERF_GLOBAL_STATUS_RESET && index != IA32_PERF_GLOBAL_STATUS_SET) {
        status_of(cpu)->wrmsr(cpu);
        return;
    }
    if (wrmsr_safe(index, (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32))
        skip_instruction(cpu);
    else
        inject_gp();
}

/* With pmu=off, the accesses exit anyway, and fault. This policy does not change that. */
static void set_handlers(struct cpu *cpu)
{
    struct cpu_status *under = status_of(cpu);

    if (!cpu->boot->options.pmu)
        return;
    msr_bitmap_set(cpu->msr_bitmap, IA32_PERF_GLOBAL_STATUS, IA32_PERF_GLOBAL_STATUS, true, false);
    msr_bitmap_set(cpu->msr_bitmap, IA32_PERF_GLOBAL_STATUS_RESET, IA32_PERF_GLOBAL_STATUS_SET,
                   false, true);
    under->rdmsr = cpu->handlers[EXIT_REASON_RDMSR];
    under->wrmsr = cpu->handlers[EXIT_REASON_WRMSR];
    cpu->handlers[EXIT_REASON_RDMSR] = status_rdmsr;
    cpu->handlers[EXIT_REASON_WRMSR] = status_wrmsr;
}

static const struct experiment example = {
    .name = "example",
    .policy = {"status", POLICY_MSR_NMI},
    .rows = set_handlers,
    .place = &place,
    .state_bytes = sizeof(struct cpu_status),
};
EXPERIMENT(example);
