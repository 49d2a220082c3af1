/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs of several processors: each counts what it got one for: its own PMI, of fixed counter 0, or
 * an NMI of another processor (struct processor: sent, seen).
 * SDM Vol. 3, "Handling Multiple NMIs", "Performance Monitoring".
 */
#include "smp.h"

void smp_pmi_begin(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS | FIXED_0_PMI);
    apic_write_lvtpc(LVT_NMI);
}

void smp_pmi_end(void)
{
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
}

void smp_pmi_arm(struct processor *self, uint64_t period)
{
    self->counting = true;
    wrmsr(IA32_FIXED_CTR0, -period & COUNTER_MASK);
    wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0);
}

unsigned smp_nmi_acknowledge(struct processor *self)
{
    unsigned found = 0;

    if (self->counting) {
        if (rdmsr(IA32_PERF_GLOBAL_STATUS) & FIXED_COUNTER_0) {
            wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
            wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
            self->unmasked += !(apic_read_lvtpc() & LVT_MASKED);
            self->pmis++;
            found |= SMP_NMI_PMI;
        }
        apic_write_lvtpc(LVT_NMI);
    }
    if (self->seen != self->sent) {
        self->seen = self->sent;
        found |= SMP_NMI_SENT;
    }
    return found;
}

void smp_nmi_handle(const struct trap_frame *frame);

void smp_nmi_handle(const struct trap_frame *frame)
{
    struct processor *self = smp_self();

    (void)frame;
    self->nmis++;
    if (self->depth != 0)
        self->nested++;
    self->depth++;
    if (self->on_nmi != NULL)
        self->on_nmi(self);
    self->depth--;
}
