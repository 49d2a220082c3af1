/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VMCALL: the requests that the guest can make, normally only its kernel. Numbers and arguments are
 * in include/hypercall.h. All data moves in registers, so no guest memory is read or written.
 */
#include "vmx/exit/exit.h"

#include "experiment.h"
#include "hypercall.h"
#include "nmi/host_work.h"
#include "nmi/nmi.h"

#define HOST_WORK_MAX (1ULL << 32)      /* number of branches; this many take some seconds */
#define HOST_WORK_PMIS_MAX (1ULL << 20) /* number of PMIs; this many also take some seconds */
#define HOST_WORK_PERIOD_MIN 100        /* a shorter period would leave no time between PMIs */
#define ALL_REASONS (~0ULL)

static int64_t serve_host_work(struct cpu *cpu)
{
    uint64_t when = cpu->gpr[GPR_RDX];
    struct host_work work = {.branches = cpu->gpr[GPR_RBX],
                             .period = cpu->gpr[GPR_RCX],
                             .records = when == HOST_WORK_RECORDS ? cpu->pmu.records : NULL};

    if (!cpu->boot->options.pmu || work.branches == 0 || work.branches > HOST_WORK_MAX ||
        work.period < HOST_WORK_PERIOD_MIN || work.period > HOST_WORK_MAX ||
        work.branches / work.period > HOST_WORK_PMIS_MAX)
        return HYPERCALL_E_ARGUMENT;
    if (!cpu->pmu.can_run_host_work || (when == HOST_WORK_RECORDS && !work.records))
        return HYPERCALL_E_SUPPORT;
    if (when == HOST_WORK_AT_TICK)
        return tick_schedule_host_work(cpu, work.branches, work.period) ? 0 : HYPERCALL_E_STATE;
    if (!host_work_run(cpu, &work))
        return HYPERCALL_E_STATE;
    cpu->gpr[GPR_RBX] = work.counted;
    if (work.records)
        cpu->gpr[GPR_RCX] = work.own;
    return (int64_t)work.pmis;
}

static int64_t serve_statistics(struct cpu *cpu)
{
    uint64_t reason = cpu->gpr[GPR_RBX], total = 0;

    if (reason < EXIT_REASON_COUNT)
        return (int64_t)cpu->exits[reason];
    if (reason != ALL_REASONS)
        return HYPERCALL_E_ARGUMENT;
    for (unsigned i = 0; i < EXIT_REASON_COUNT; i++)
        total += cpu->exits[i];
    return (int64_t)total;
}

static int64_t serve_log(struct cpu *cpu)
{
    static const uint8_t results[] = {GPR_RCX, GPR_RDX, GPR_RSI, GPR_RDI};
    uint64_t words[LENGTH_OF(results)] = {0};
    size_t n = log_read(&cpu->gpr[GPR_RBX], (char *)words, sizeof(words));

    for (unsigned i = 0; i < LENGTH_OF(results); i++)
        cpu->gpr[results[i]] = words[i];
    return (int64_t)n;
}

static int64_t serve_nmi_passthrough(struct cpu *cpu)
{
    bool on = cpu->gpr[GPR_RAX] == HYPERCALL_NMI_PASSTHROUGH_ON;

    return nmi_set_passthrough(cpu, on) ? 0 : HYPERCALL_E_SUPPORT;
}

static const hypercall own[] = {
    [HYPERCALL_NMI_PASSTHROUGH_ON] = serve_nmi_passthrough,
    [HYPERCALL_NMI_PASSTHROUGH_OFF] = serve_nmi_passthrough,
    [HYPERCALL_UNKNOWN_NMI] = nmi_claim_unknown,
    [HYPERCALL_STATISTICS] = serve_statistics,
    [HYPERCALL_LOG] = serve_log,
    [HYPERCALL_HOST_WORK] = serve_host_work,
};

void hypercall_offer(struct cpu *cpu, uint32_t number, hypercall call)
{
    cpu->calls[number] = call;
    cpu->hypercalls |= (uint32_t)BIT(number);
}

void hypercall_setup(struct cpu *cpu)
{
    for (uint32_t number = 0; number < LENGTH_OF(own); number++)
        if (own[number] != NULL)
            hypercall_offer(cpu, number, own[number]);
}

void exit_vmcall(struct cpu *cpu)
{
    uint64_t number = cpu->gpr[GPR_RAX], index = number % LENGTH_OF(cpu->calls);
    int64_t result = HYPERCALL_E_NUMBER;

    /* Mask the index as well, because the processor may speculatively execute a call past the
     * check. The check makes the mask redundant for the compiler, and the empty asm keeps the
     * compiler from dropping the mask. */
    __asm__("" : "+r"(index));
    if (!cpu->boot->options.user_hypercalls && guest_cpl() != 0)
        result = HYPERCALL_E_PERMISSION;
    else if (number < LENGTH_OF(cpu->calls) && cpu->calls[index] != NULL)
        result = cpu->calls[index](cpu);
    cpu->gpr[GPR_RAX] = (uint64_t)result;
    skip_instruction(cpu);
}
