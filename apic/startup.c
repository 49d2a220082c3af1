/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Starting processors, and the local APIC of one that is started again. Touches the local APIC only.
 * SDM Vol. 3, "Typical BSP Initialization Sequence"; "Local APIC State After an INIT Reset
 * ("Wait-for-SIPI" State)".
 */
#include "apic.h"

#include "msr.h"
#include "x86.h"

#define INTERRUPTS 256

#define INIT_US 10000      /* SDM: from the INIT to the first SIPI */
#define START_UP_US 200    /* and from that to the second */
#define ARRIVAL_US 1000000 /* then it must be there */

static bool wait_us(unsigned us, const volatile bool *until)
{
    while (us-- > 0 && !*until)
        delay_us(1);
    return *until;
}

bool apic_start_processor(uint32_t apic_id, uint64_t page, const volatile bool *started)
{
    uint32_t start_up = ICR_START_UP | (uint32_t)(page >> PAGE_SHIFT);

    if (!apic_send(apic_id, ICR_INIT))
        return false;
    delay_us(INIT_US);
    if (!apic_send(apic_id, start_up))
        return false;
    if (wait_us(START_UP_US, started))
        return true;
    if (apic_send(apic_id, start_up) && wait_us(ARRIVAL_US, started))
        return true;
    /* One that comes still later would run in a page that is the guest's by then. */
    (void)apic_send(apic_id, ICR_INIT);
    return false;
}

static bool interrupt_in_service(void)
{
    for (unsigned i = 0; i < ISR_REGISTERS; i++)
        if (apic_read(APIC_ISR + i * APIC_REGISTER_BYTES) != 0)
            return true;
    return false;
}

void apic_software_disable(void)
{
    if (rdmsr(IA32_APIC_BASE) & APIC_BASE_EN)
        apic_write(APIC_SVR, SVR_RESET);
}

void apic_init_state(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (!(base & APIC_BASE_EN))
        return;
    for (unsigned i = 0; i < INTERRUPTS && interrupt_in_service(); i++)
        apic_write(APIC_EOI, 0);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_INITIAL, 0);
    apic_write(APIC_TIMER_DIVIDE, 0);
    for (uint32_t lvt = APIC_LVT_TIMER; lvt <= APIC_LVT_ERROR; lvt += APIC_REGISTER_BYTES)
        apic_write(lvt, LVT_MASKED);
    if (!(base & APIC_BASE_EXTD)) {
        apic_write(APIC_LDR, 0);
        apic_write(APIC_DFR, DFR_RESET);
        apic_write(APIC_ICR_HIGH, 0);
    }
    apic_write(APIC_SVR, SVR_RESET);
}
