/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy=demand: the guest's PMU accesses pass only while the guest counts. At the start, each
 * access exits, as with policy=intercept, and that policy's handlers complete the accesses. A write
 * that turns a counter on is not completed. Instead, its handler opens the registers, and the guest
 * executes the write again. Each tick checks whether anything still counts. After IDLE_TICKS ticks
 * in a row at which nothing counted, accesses exit again. Thesis, chapter 6, "Fine-Grained MSR
 * Passthrough". The guest takes its own NMIs all the time, as with msr+nmi, so opening or closing
 * the registers does not change who takes an NMI.
 *
 * Two settings in the VMCS decide whether accesses pass: the address of the MSR bitmap (there are
 * two bitmaps), and RDPMC exiting. A change of these settings does not change the PMU's registers.
 * So an NMI may arrive at any instruction here. Before, between and after the two writes to the
 * VMCS, the guest's next access finds the same value, with or without an exit. The NMI handler
 * itself needs neither setting. If an NMI for the guest arrives while root mode examines the
 * guest's write, the entry delivers the NMI before the guest executes the write again. So the
 * guest's NMI handler runs before the write, as it does natively if an NMI arrives before the
 * write. SDM Vol. 3, "MSR-Bitmap Address"; "Processor-Based VM-Execution Controls".
 */
#include "experiment.h"

#include "experiments/demand/hypervisor/demand.h"
#include "experiments/demand/hypervisor/options.h"
#include "nmi/nmi.h"
#include "vmx/exit/exit.h"
#include "vmx/msr_bitmap.h"
#include "vmx/root/end.h"

#define IDLE_TICKS 2
#define PART_WRITE 2048 /* offset of the part of the bitmap that controls writes */

/* State of each processor. */
struct cpu_demand {
    uint8_t *open;          /* bitmap that lets PMU accesses pass; NULL: other policy or pmu=off */
    bool passes;            /* PMU accesses pass now */
    bool rdpmc_exits;       /* this processor's VMX cannot turn RDPMC exiting off */
    unsigned idle;          /* ticks in a row at which nothing counted */
    struct pmu_facts facts; /* the counters that exist */
    exit_handler wrmsr;     /* the handler that demand_wrmsr() replaced */
    exit_handler tick;      /* the handler that demand_tick() replaced */
    exit_handler under_second_user; /* the handler that second_user_tick() replaced */
};

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

static uint64_t place;

static struct cpu_demand *demand_of(const struct cpu *cpu)
{
    return (struct cpu_demand *)((uintptr_t)cpu + place);
}

static void set_pmu_passthrough(struct cpu *cpu, bool pass)
{
    struct cpu_demand *d = demand_of(cpu);

    d->passes = pass;
    d->idle = 0;
    vmcs_write_64(VMCS_MSR_BITMAPS, (uint64_t)(pass ? d->open : cpu->msr_bitmap));
    if (!d->rdpmc_exits)
        vmcs_set_primary_controls(PRIMARY_RDPMC_EXITING, !pass);
}

/* While PMU accesses pass, a write that still exits turns no counter on: it is a write of
 * IA32_PEBS_BASE, or of an MSR that does not belong to the PMU. */
static void demand_wrmsr(struct cpu *cpu)
{
    struct cpu_demand *d = demand_of(cpu);
    uint64_t value = (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32;

    if (d->passes || !demand_enables_counter(&d->facts, (uint32_t)cpu->gpr[GPR_RCX], value)) {
        d->wrmsr(cpu);
        return;
    }
    set_pmu_passthrough(cpu, true);
    reexecute_instruction();
}

static void demand_tick(struct cpu *cpu)
{
    struct cpu_demand *d = demand_of(cpu);

    if (d->passes) {
        if (demand_is_counting(cpu, &d->facts))
            d->idle = 0;
        else if (++d->idle == IDLE_TICKS)
            set_pmu_passthrough(cpu, false);
    }
    d->tick(cpu);
}

/* Fills the open bitmap. It equals the closed bitmap, except that accesses to the PMU's registers
 * pass. But writes of IA32_PEBS_BASE, the buffer address of architectural PEBS, still exit, because
 * the address has to be checked (vmx/exit/msr.c). */
static void make_open_bitmap(const struct cpu *cpu, uint8_t *open)
{
    const uint8_t *closed = cpu->msr_bitmap;

    for (uint32_t i = 0; i < PAGE_SIZE; i++)
        open[i] = closed[i];
    for (uint32_t index = 0; index < MSR_BITMAP_RANGE; index++)
        if (pmu_is_trapped(cpu, index)) {
            open[index / 8] &= (uint8_t)~(1u << index % 8);
            open[PART_WRITE + index / 8] &= (uint8_t)~(1u << index % 8);
        }
    msr_bitmap_set(open, IA32_PEBS_BASE, IA32_PEBS_BASE, false, true);
}

static void set_handlers(struct cpu *cpu)
{
    struct cpu_demand *d = demand_of(cpu);

    if (!cpu->boot->options.pmu)
        return;
    d->open = page_alloc(1);
    make_open_bitmap(cpu, d->open);
    d->facts = pmu_read_facts();
    d->rdpmc_exits = (uint32_t)rdmsr(IA32_VMX_PROCBASED_CTLS) & PRIMARY_RDPMC_EXITING;
    d->wrmsr = cpu->handlers[EXIT_REASON_WRMSR];
    d->tick = cpu->handlers[EXIT_REASON_PREEMPTION_TIMER];
    cpu->handlers[EXIT_REASON_WRMSR] = demand_wrmsr;
    cpu->handlers[EXIT_REASON_PREEMPTION_TIMER] = demand_tick;
    (void)nmi_set_passthrough(cpu, true);
    if (!cpu->tick.runs && cpu == get_cpu_by_index(0))
        log_printf("pmuvisor: policy demand: without a tick the PMU passes for good once it has "
                   "counted; tick=1 to tick=10000 in pmuvisor.cfg is one\n");
}

/* Returns the number of pages: one bitmap for each processor. */
static uint64_t count_pages(const struct boot_info *bi, UNUSED uint64_t tables)
{
    return bi->acpi.processors < PROCESSORS_MAX ? bi->acpi.processors : PROCESSORS_MAX;
}

/* Returns whether the PMU's registers belong to the guest. If so, they hold values that a second
 * user would overwrite. */
static bool is_pmu_passed_through(const struct cpu *cpu)
{
    const struct cpu_demand *d = demand_of(cpu);

    return d->open != NULL ? d->passes : cpu->boot->options.policy != POLICY_INTERCEPT;
}

static void second_user_tick(struct cpu *cpu)
{
    demand_of(cpu)->under_second_user(cpu);
    if (is_pmu_passed_through(cpu))
        second_user_switch(cpu);
}

static void set_up_processor(struct cpu *cpu, UNUSED const struct vmx_capability *c)
{
    if (second_user == SECOND_USER_OFF || !cpu->boot->options.pmu)
        return;
    demand_of(cpu)->under_second_user = cpu->handlers[EXIT_REASON_PREEMPTION_TIMER];
    cpu->handlers[EXIT_REASON_PREEMPTION_TIMER] = second_user_tick;
}

static const struct experiment demand = {
    .name = "demand",
    .options = options,
    .option_count = LENGTH_OF(options),
    .policy = {"demand", POLICY_INTERCEPT},
    .rows = set_handlers,
    .pages = count_pages,
    .place = &place,
    .state_bytes = sizeof(struct cpu_demand),
    .setup = set_up_processor,
};
EXPERIMENT(demand);
