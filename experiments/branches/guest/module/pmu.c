// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The hardware of a trace. Counter 0 raises the PMIs, counter 1 counts taken near branches, counter
 * 2 the branch records that were written: how many there are to read, and whether any is lost.
 * A PMI freezes records and counters, so that the kernel's way to this handler is not seen; its way
 * back is, from the write that ends the freeze: the tool takes it out (../list.c).
 *
 * SDM Vol. 3, "Architectural Performance Monitoring Version 4" (freezing and GLOBAL_STATUS_RESET),
 * "Last Branch, Interrupt, and Exception Recording for Processors based on Skylake
 * Microarchitecture", "Filtering of Last Branch Records". Event codes: perf's table of Skylake-X.
 */
#include <linux/errno.h>
#include <linux/printk.h>
#include <linux/smp.h>
#include <linux/types.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/processor.h>
#include <asm/ptrace.h>

#include "branchtrace.h"
#include "region.h"

#define COUNTERS 3
#define COUNTER_PERIOD 0
#define COUNTER_TAKEN 1
#define COUNTER_INSERTS 2
#define EVENT_NEAR_TAKEN 0x20c4ull
#define EVENT_LBR_INSERTS 0x20ccull

/* MSR_LBR_SELECT: what is kept out (arch/x86/events/intel/lbr.c has the same bits). */
#define SELECT_CPL_EQ_0 BIT_ULL(0)
#define SELECT_CPL_NEQ_0 BIT_ULL(1)
#define SELECT_FAR BIT_ULL(8)

#define PERF_CAP_LBR_FORMAT 0x3full
#define LBR_FORMAT_INFO 5
#define PERF_CAP_FULL_WIDTH BIT_ULL(13)
#define LBR_DEPTH 32u
#define PMU_VERSION_FREEZE 4
#define COUNTER_MASK (BIT_ULL(48) - 1)
#define IDLE_PMIS_MAX 16u

#define PERIOD_OVERFLOW BIT_ULL(COUNTER_PERIOD)
#define FREEZES (GLOBAL_STATUS_LBRS_FROZEN | GLOBAL_STATUS_COUNTERS_FROZEN)
#define RECORDING                                                                                  \
    (DEBUGCTLMSR_LBR | DEBUGCTLMSR_FREEZE_LBRS_ON_PMI | DEBUGCTLMSR_FREEZE_PERFMON_ON_PMI)

static struct trace *current_trace;

/* The instructions themselves: the kernel's own functions are called, and the call would be a
 * branch at the seam of the trace. */
static __always_inline void write_msr(u32 msr, u64 value)
{
    __wrmsr(msr, (u32)value, (u32)(value >> 32));
}

static __always_inline u64 read_msr(u32 msr) { return __rdmsr(msr); }

/* Sets what of IA32_DEBUGCTL is the trace's: RECORDING or 0. The other bits are Linux's. */
static __always_inline void set_debugctl(u64 recording)
{
    write_msr(MSR_IA32_DEBUGCTLMSR, (read_msr(MSR_IA32_DEBUGCTLMSR) & ~RECORDING) | recording);
}

int pmu_check(void)
{
    union cpuid10_eax eax;
    unsigned int unused;
    u64 capabilities = 0;

    cpuid(0xa, &eax.full, &unused, &unused, &unused);
    if (boot_cpu_has(X86_FEATURE_PDCM))
        rdmsrl_safe(MSR_IA32_PERF_CAPABILITIES, &capabilities);
    if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL || eax.split.version_id < PMU_VERSION_FREEZE ||
        eax.split.num_counters < COUNTERS ||
        (capabilities & PERF_CAP_LBR_FORMAT) != LBR_FORMAT_INFO ||
        !(capabilities & PERF_CAP_FULL_WIDTH)) {
        pr_err("branchtrace: PMU version %u with %u counters and PERF_CAPABILITIES %#llx, wanted "
               "version %d or later, %d counters, branch records of format %d, full-width writes; "
               "run it on such a processor, or in a guest that is shown one\n",
               eax.split.version_id, eax.split.num_counters, capabilities, PMU_VERSION_FREEZE,
               COUNTERS, LBR_FORMAT_INFO);
        return -ENODEV;
    }
    return 0;
}

static void release_some(unsigned int counters)
{
    while (counters-- > 0) {
        release_evntsel_nmi(MSR_ARCH_PERFMON_EVENTSEL0 + counters);
        release_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + counters);
    }
}

/* perf reserves all general counters with its first event of the PMU, and gives them back with the
 * last one: to hold one is enough to be alone with the branch records. */
static int reserve(void)
{
    unsigned int n;

    for (n = 0; n < COUNTERS; n++) {
        if (!reserve_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + n)) {
            release_some(n);
            return -EBUSY;
        }
        if (!reserve_evntsel_nmi(MSR_ARCH_PERFMON_EVENTSEL0 + n)) {
            release_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + n);
            release_some(n);
            return -EBUSY;
        }
    }
    return 0;
}

/* As apic_write() of Linux 6.1. That of 6.12 is a static call, which modules cannot make. */
static void lvtpc_open(void) { apic->write(APIC_LVTPC, APIC_DM_NMI); }

static u64 read_counter(unsigned int n) { return read_msr(MSR_IA32_PMC0 + n); }

/* Takes the records written since the last readout, oldest first. */
static void drain(struct trace *t, u16 why, struct pt_regs *regs)
{
    u64 inserts = read_counter(COUNTER_INSERTS);
    u64 fresh = (inserts - t->inserts_read) & COUNTER_MASK;
    u32 count = fresh < LBR_DEPTH ? fresh : LBR_DEPTH;
    struct branchtrace_readout *readout = &t->readouts[t->readouts_used];
    struct branchtrace_record *record = &t->records[t->used];
    u64 top;
    u32 i;

    if (t->cut)
        return;
    if (t->readouts_used == t->setup.readouts || t->setup.records - t->used < count) {
        t->cut = BRANCHTRACE_CUT_FULL;
        return;
    }
    t->inserts_read = inserts;
    readout->ip = regs ? regs->ip : 0;
    readout->user = regs && user_mode(regs);
    readout->first = t->used;
    readout->count = count;
    readout->missing = fresh - count;
    readout->why = why;
    top = read_msr(MSR_LBR_TOS);
    for (i = 0; i < count; i++, record++) {
        u32 n = (top - count + 1 + i) % LBR_DEPTH;

        record->from = read_msr(MSR_LBR_NHM_FROM + n);
        record->to = read_msr(MSR_LBR_NHM_TO + n);
        record->info = read_msr(MSR_LBR_INFO_0 + n);
    }
    t->used += count;
    t->readouts_used++;
}

/* Where the way back from one PMI has so many branches that it makes the next one, the thread never
 * goes on: the newest record then does not lead to where this PMI came, which is where the last one
 * did. */
static void check_progress(struct trace *t, struct pt_regs *regs)
{
    u64 newest = t->used ? t->records[t->used - 1].to : 0;

    if (regs->ip != t->pmi_ip || regs->ip - newest < STRAIGHT_MAX)
        t->idle_pmis = 0;
    else if (++t->idle_pmis == IDLE_PMIS_MAX)
        t->cut = BRANCHTRACE_CUT_STUCK;
    t->pmi_ip = regs->ip;
}

static int pmi(unsigned int type, struct pt_regs *regs)
{
    struct trace *t = READ_ONCE(current_trace);
    u64 status;

    if (!t || raw_smp_processor_id() != t->cpu)
        return NMI_DONE;
    status = read_msr(MSR_CORE_PERF_GLOBAL_STATUS);
    if (!(status & PERIOD_OVERFLOW))
        return NMI_DONE;
    /* One that was late finds the trace stopped, and is only acknowledged. */
    if (READ_ONCE(t->active) && !READ_ONCE(t->draining)) {
        drain(t, BRANCHTRACE_BY_PMI, regs);
        check_progress(t, regs);
    }
    if (t->cut) {
        set_debugctl(0);
        write_msr(MSR_CORE_PERF_GLOBAL_CTRL, 0);
    }
    t->pmis++;
    write_msr(MSR_IA32_PMC0 + COUNTER_PERIOD, -(u64)t->setup.period & COUNTER_MASK);
    /* A PMI masks its own entry. */
    lvtpc_open();
    /* From here on branches are recorded again. */
    write_msr(MSR_CORE_PERF_GLOBAL_OVF_CTRL, (status & PERIOD_OVERFLOW) | FREEZES);
    return NMI_HANDLED;
}

int pmu_reserve(void)
{
    int error = reserve();

    if (error)
        return error;
    error = register_nmi_handler(NMI_LOCAL, pmi, 0, "branchtrace");
    if (error)
        release_some(COUNTERS);
    return error;
}

void pmu_release(void)
{
    unregister_nmi_handler(NMI_LOCAL, "branchtrace");
    release_some(COUNTERS);
}

static u64 event_select(const struct trace *t, u64 event, bool all_modes, bool interrupt)
{
    return event | ARCH_PERFMON_EVENTSEL_ENABLE |
           (all_modes || t->setup.flags & BRANCHTRACE_USER ? ARCH_PERFMON_EVENTSEL_USR : 0) |
           (all_modes || t->setup.flags & BRANCHTRACE_KERNEL ? ARCH_PERFMON_EVENTSEL_OS : 0) |
           (interrupt ? ARCH_PERFMON_EVENTSEL_INT : 0);
}

static void record(struct trace *t, bool again)
{
    if (t->cut)
        return;
    WRITE_ONCE(t->active, true);
    write_msr(MSR_CORE_PERF_GLOBAL_CTRL, BIT_ULL(COUNTERS) - 1);
    if (again && t->setup.region) {
        region_mark(t->setup.region, true);
        set_debugctl(RECORDING);
    } else {
        set_debugctl(RECORDING);
    }
}

void pmu_resume(struct trace *t) { record(t, true); }

void pmu_start(struct trace *t)
{
    u32 flags = t->setup.flags;
    bool by_inserts = flags & BRANCHTRACE_INSERTS;
    unsigned int n;

    set_debugctl(0);
    write_msr(MSR_CORE_PERF_GLOBAL_CTRL, 0);
    for (n = 0; n < COUNTERS; n++)
        write_msr(MSR_IA32_PMC0 + n, 0);
    write_msr(MSR_IA32_PMC0 + COUNTER_PERIOD, -(u64)t->setup.period & COUNTER_MASK);
    write_msr(MSR_ARCH_PERFMON_EVENTSEL0 + COUNTER_PERIOD,
              event_select(t, by_inserts ? EVENT_LBR_INSERTS : EVENT_NEAR_TAKEN, by_inserts, true));
    write_msr(MSR_ARCH_PERFMON_EVENTSEL0 + COUNTER_TAKEN,
              event_select(t, EVENT_NEAR_TAKEN, false, false));
    write_msr(MSR_ARCH_PERFMON_EVENTSEL0 + COUNTER_INSERTS,
              event_select(t, EVENT_LBR_INSERTS, true, false));
    write_msr(MSR_LBR_SELECT, (flags & BRANCHTRACE_KERNEL ? 0 : SELECT_CPL_EQ_0) |
                                  (flags & BRANCHTRACE_USER ? 0 : SELECT_CPL_NEQ_0) |
                                  (flags & BRANCHTRACE_FAR ? 0 : SELECT_FAR));
    write_msr(MSR_CORE_PERF_GLOBAL_OVF_CTRL, PERIOD_OVERFLOW | FREEZES);
    lvtpc_open();
    t->cpu = raw_smp_processor_id();
    t->used = t->readouts_used = t->pmis = t->cut = t->idle_pmis = 0;
    t->pmi_ip = 0;
    t->inserts_read = 0;
    t->draining = false;
    WRITE_ONCE(current_trace, t);
    record(t, false);
}

static void stop_recording(struct trace *t, u16 why)
{
    if (why == BRANCHTRACE_BY_SWITCH && t->setup.region) {
        set_debugctl(0);
        region_mark(t->setup.region, false);
    } else {
        set_debugctl(0);
    }
    write_msr(MSR_CORE_PERF_GLOBAL_CTRL, 0);
    /* A PMI from here on only acknowledges: what it would read is read below. */
    WRITE_ONCE(t->draining, true);
    drain(t, why, NULL);
    WRITE_ONCE(t->draining, false);
    t->near_taken = read_counter(COUNTER_TAKEN);
    t->inserts = read_counter(COUNTER_INSERTS);
    WRITE_ONCE(t->active, false);
}

void pmu_pause(struct trace *t) { stop_recording(t, BRANCHTRACE_BY_SWITCH); }

void pmu_stop(struct trace *t)
{
    unsigned int n;

    stop_recording(t, BRANCHTRACE_BY_STOP);
    for (n = 0; n < COUNTERS; n++)
        write_msr(MSR_ARCH_PERFMON_EVENTSEL0 + n, 0);
    write_msr(MSR_LBR_SELECT, 0);
    WRITE_ONCE(current_trace, NULL);
}
