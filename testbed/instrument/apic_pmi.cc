// SPDX-License-Identifier: BSD-2-Clause
//
// LVTPC: a PMI sets its mask bit and is delivered in the mode it names; masked, the PMI is dropped.
// SDM Vol. 3, "Local Vector Table" and "Valid Interrupt Vectors".
#include "bochs.h"
#include "cpu.h"

#include "apic.h"
#include "apic_pmi.h"

namespace {

constexpr Bit32u LVT_MASKED = 1u << 16;
constexpr Bit32u LVT_VECTOR = 0xff;
constexpr unsigned LVT_MODE_SHIFT = 8;
constexpr Bit32u LVT_MODE = 7;

}  // namespace

void apic_pmi(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u lvtpc = cpu->lapic->read_aligned(BX_LAPIC_LVT_PERFMON);
    bool masked = (lvtpc & LVT_MASKED) || !cpu->apic_global_enable_on();

    p.ledger.pmi_raised(masked);
    p.debugctl = p.pmu.on_pmi(p.debugctl);
    if (masked)
        return;
    cpu->lapic->set_lvt_entry(BX_LAPIC_LVT_PERFMON, lvtpc | LVT_MASKED);
    switch (lvtpc >> LVT_MODE_SHIFT & LVT_MODE) {
    case APIC_DM_FIXED:
        p.pmi_vector = lvtpc & LVT_VECTOR;
        cpu->lapic->deliver(static_cast<Bit8u>(p.pmi_vector), APIC_DM_FIXED, 0);
        break;
    case APIC_DM_NMI:
        p.pmi_as_nmi = true;
        cpu->deliver_NMI();
        break;
    default:
        // INIT and ExtINT are not supported here; there is no SMI handler on this machine.
        break;
    }
}

void apic_nmi_arrived(Processor &p, Arrival where)
{
    p.ledger.nmi(where);
    if (p.pmi_as_nmi)
        p.ledger.pmi(where);
    p.pmi_as_nmi = false;
}

void apic_vector_arrived(Processor &p, unsigned vector, Arrival where)
{
    if (p.pmi_vector == 0 || vector != p.pmi_vector)
        return;
    p.ledger.pmi(where);
    p.pmi_vector = 0;
}
