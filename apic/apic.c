/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Local APIC access in xAPIC and x2APIC mode. The guest changes the mode at will, so each call
 * looks at IA32_APIC_BASE first.
 * SDM Vol. 3, "Local APIC", "Extended XAPIC (x2APIC)".
 */
#include "apic.h"

#include "../vmx/fault.h"
#include "log.h"
#include "msr.h"
#include "x86.h"

#define XAPIC_ID 0x020
#define XAPIC_SVR 0x0f0
#define XAPIC_LVT_PMI 0x340
#define XAPIC_ICR_LOW 0x300
#define XAPIC_ICR_HIGH 0x310
#define XAPIC_ID_SHIFT 24
#define X2APIC_SVR 0x80f
#define SVR_SOFTWARE_ENABLE BIT(8)
#define X2APIC_ICR 0x830
#define X2APIC_DESTINATION_SHIFT 32
#define ICR_DELIVERY_NMI (4u << 8)
#define ICR_LEVEL_ASSERT BIT(14)
#define ICR_DELIVERY_STATUS BIT(12)
#define ICR_IDLE_READS 100000 /* a send takes far fewer; bounded because NMI context must end */
#define APIC_BASE_ADDRESS BITS(51, 12)

static volatile uint32_t *xapic_register(uint64_t apic_base, uint32_t offset)
{
    return (volatile uint32_t *)((apic_base & APIC_BASE_ADDRESS) + offset);
}

struct range apic_page(void)
{
    return (struct range){rdmsr(IA32_APIC_BASE) & APIC_BASE_ADDRESS, PAGE_SIZE};
}

uint32_t apic_id_read(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (base & APIC_BASE_EXTD)
        return (uint32_t)rdmsr(IA32_X2APIC_APICID);
    if (base & APIC_BASE_EN)
        return *xapic_register(base, XAPIC_ID) >> XAPIC_ID_SHIFT;
    return cpuid(1, 0).ebx >> XAPIC_ID_SHIFT;
}

/* False: a send is still under way, and would be lost if another were written over it. */
static bool wait_for_idle(const volatile uint32_t *icr_low)
{
    for (unsigned i = 0; i < ICR_IDLE_READS; i++)
        if (!(*icr_low & ICR_DELIVERY_STATUS))
            return true;
    return false;
}

bool apic_send_nmi(uint32_t apic_id)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);
    uint32_t command = ICR_DELIVERY_NMI | ICR_LEVEL_ASSERT;

    if (!(base & APIC_BASE_EN))
        return false;
    if (base & APIC_BASE_EXTD) {
        wrmsr(X2APIC_ICR, (uint64_t)apic_id << X2APIC_DESTINATION_SHIFT | command);
        return true;
    }
    /* The guest may be between its two writes of the ICR: the high half is put back. */
    volatile uint32_t *low = xapic_register(base, XAPIC_ICR_LOW);
    volatile uint32_t *high = xapic_register(base, XAPIC_ICR_HIGH);
    if (!wait_for_idle(low))
        return false;
    uint32_t guest_high = *high;
    *high = apic_id << XAPIC_ID_SHIFT;
    *low = command;
    (void)wait_for_idle(low);
    *high = guest_high;
    return true;
}

bool apic_send_self_nmi(void) { return apic_send_nmi(apic_id_read()); }

bool apic_software_enabled(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (!(base & APIC_BASE_EN))
        return false;
    uint32_t svr = base & APIC_BASE_EXTD ? (uint32_t)rdmsr(X2APIC_SVR)
                                         : *xapic_register(base, XAPIC_SVR);
    return svr & SVR_SOFTWARE_ENABLE;
}

uint32_t apic_lvtpc_read(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    return base & APIC_BASE_EXTD ? (uint32_t)rdmsr(IA32_X2APIC_LVT_PMI)
                                 : *xapic_register(base, XAPIC_LVT_PMI);
}

void apic_lvtpc_write(uint32_t value)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (base & APIC_BASE_EXTD)
        wrmsr(IA32_X2APIC_LVT_PMI, value);
    else
        *xapic_register(base, XAPIC_LVT_PMI) = value;
}

bool apic_base_write(struct cpu *cpu, uint64_t value)
{
    uint64_t now = rdmsr(IA32_APIC_BASE);

    (void)cpu;
    return ((value ^ now) & APIC_BASE_ADDRESS) == 0 && wrmsr_safe(IA32_APIC_BASE, value);
}
