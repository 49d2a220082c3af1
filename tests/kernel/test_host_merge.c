/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A host NMI and a PMI of the guest's in one exit: the PMI lands in root mode at one instruction
 * (the emulator's skid), the host's NMI at every one, those of the root-mode NMI handler included.
 * Two NMIs pending at once are one to the processor, so each side has to be asked. The host's must
 * be handled exactly once by the next exit, and the guest must get its PMI exactly once.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "probe.h"

#define LINGER 64

/* The last argument: which bit of GLOBAL_STATUS the emulator sets (knob `pmi_status`). */
#define STATUS_NONE 64
#define DEBUGCTL_TR BIT(6) /* branch trace messages, with BTS into the DS area's buffer */
#define BRANCH_TRACE (DEBUGCTL_TR | DEBUGCTL_BTS | DEBUGCTL_BTINT)

static uint64_t pmis, status_bits;

static void handle_pmi(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    pmis += rdmsr(IA32_PERF_GLOBAL_STATUS) == status_bits && apic_read_lvtpc() & LVT_MASKED;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status_bits);
    apic_write_lvtpc(LVT_NMI);
}

/* `host-sweep-merge:FIRST:POSITIONS:OVERFLOW[:STATUS]`: the counter overflows OVERFLOW instructions
 * after its start, PMI_BEFORE instructions before the exit. With STATUS_NONE the PMI is one of the
 * branch trace's buffer. */
void test_host_sweep_merge(const struct job *job)
{
    uint64_t first = job->number[0], positions = job->number[1], overflow = job->number[2];
    uint64_t delivered = 0, silent = 0, wrong = 0, late = 0, more = 0;
    uint64_t status = job->number[3];
    const char *why;

    if (!host_nmi_setup(job))
        return;
    status_bits = status == 0 ? FIXED_COUNTER_0 : status == STATUS_NONE ? 0 : BIT(status);
    wrmsr(IA32_DEBUGCTL, status == STATUS_NONE ? BRANCH_TRACE : 0);
    if (!probe_learn(PROBE_CPUID, &why)) {
        tap_skip(job->name, why);
        return;
    }
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS_PMI);
    apic_write_lvtpc(LVT_NMI);
    uint64_t done = exits_of(EXIT_REASON_CPUID);
    for (; done + 1 < first; done++)
        wrong += !probe_once(PROBE_CPUID, (unsigned)done);
    for (uint64_t position = 1; position <= positions; position++) {
        settle_all();
        struct handled before = host_handled();
        uint64_t nmis = nmi.count;
        pmis = 0;
        wrmsr(IA32_FIXED_CTR0, -overflow & COUNTER_MASK);
        nmi.action = handle_pmi;
        bool right = probe_once_counted(FIXED_COUNTER_0, (unsigned)position);
        linger(LINGER);
        struct handled after = host_handled();
        uint64_t in_root = after.in_root - before.in_root;
        uint64_t recovered = after.recovered - before.recovered, seen = nmi.count - nmis;
        if (right && pmis == 1 && in_root + recovered == 1 && seen >= 1 && seen <= 2 &&
            silent == 0) {
            delivered++;
            late += recovered;
            more += seen - 1;
        } else if (right && pmis == 1 && in_root + recovered == 0 && seen == 1) {
            silent++;
        } else if (wrong++ < 8) {
            tap_note("position %lu: %lu in root mode, %lu found late; the guest had %lu NMIs and "
                     "%lu PMIs",
                     position, in_root, recovered, seen, pmis);
        }
    }
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_DEBUGCTL, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    nmi.action = NULL;
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu late=%lu more=%lu\n", job->name,
               delivered, silent, wrong, late, more);
    tap_result(wrong == 0 && delivered != 0 && silent != 0, job->name, NULL);
}
