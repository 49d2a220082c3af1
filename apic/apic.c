/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Local APIC access in xAPIC and x2APIC mode. The guest changes the mode at will, so each call
 * reads IA32_APIC_BASE first.
 * SDM Vol. 3, "Local APIC", "Extended XAPIC (x2APIC)".
 */
#include "apic/apic.h"

#include "msr.h"
#include "x86.h"

#define ICR_IDLE_READS 100000 /* a send takes far fewer; NMI context must not wait for ever */

static volatile uint32_t *xapic_register(uint64_t apic_base, uint32_t offset)
{
    return (volatile uint32_t *)((apic_base & APIC_BASE_ADDRESS) + offset);
}

uint32_t apic_read(uint32_t offset)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    return base & APIC_BASE_EXTD
               ? (uint32_t)rdmsr(IA32_X2APIC_FIRST + (offset >> X2APIC_REGISTER_SHIFT))
               : *xapic_register(base, offset);
}

void apic_write(uint32_t offset, uint32_t value)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (base & APIC_BASE_EXTD)
        wrmsr(IA32_X2APIC_FIRST + (offset >> X2APIC_REGISTER_SHIFT), value);
    else
        *xapic_register(base, offset) = value;
}

struct range apic_page(void)
{
    return (struct range){rdmsr(IA32_APIC_BASE) & APIC_BASE_ADDRESS, PAGE_SIZE};
}

uint32_t apic_id_read(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (base & APIC_BASE_EN)
        return apic_read(APIC_ID) >> (base & APIC_BASE_EXTD ? 0 : XAPIC_ID_SHIFT);
    return cpuid(1, 0).ebx >> XAPIC_ID_SHIFT;
}

/* Waits until the ICR is idle. Returns false if a send is still under way, which another write of
 * the ICR would lose. */
static bool wait_for_icr_idle(const volatile uint32_t *icr_low)
{
    for (unsigned i = 0; i < ICR_IDLE_READS; i++)
        if (!(*icr_low & ICR_DELIVERY_STATUS))
            return true;
    return false;
}

bool apic_send(uint32_t apic_id, uint32_t command)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (!(base & APIC_BASE_EN))
        return false;
    if (base & APIC_BASE_EXTD) {
        /* The receiver must see earlier stores, but this WRMSR does not wait for them. The fences
         * make the WRMSR wait (SDM Vol. 3, "MSR Access in x2APIC Mode"). */
        __asm__ volatile("mfence; lfence" : : : "memory");
        wrmsr(X2APIC_ICR, (uint64_t)apic_id << X2APIC_DESTINATION_SHIFT | command);
        return true;
    }
    /* The guest may be between its writes of the two halves of the ICR, so restore the high
     * half. */
    volatile uint32_t *low = xapic_register(base, APIC_ICR_LOW);
    volatile uint32_t *high = xapic_register(base, APIC_ICR_HIGH);
    if (apic_id > XAPIC_ID_MAX || !wait_for_icr_idle(low))
        return false;
    uint32_t guest_high = *high;
    *high = apic_id << XAPIC_ID_SHIFT;
    *low = command;
    (void)wait_for_icr_idle(low);
    *high = guest_high;
    return true;
}

void apic_send_others(uint32_t command)
{
    wrmsr(IA32_APIC_BASE, rdmsr(IA32_APIC_BASE) | APIC_BASE_EN);
    (void)apic_send(0, command | ICR_OTHERS);
}

bool apic_send_self_nmi(void) { return apic_send(apic_id_read(), ICR_NMI); }

bool apic_is_software_enabled(void)
{
    return rdmsr(IA32_APIC_BASE) & APIC_BASE_EN && apic_read(APIC_SVR) & SVR_SOFTWARE_ENABLE;
}

uint32_t apic_lvtpc_read(void) { return apic_read(APIC_LVT_PMI); }

void apic_lvtpc_write(uint32_t value) { apic_write(APIC_LVT_PMI, value); }

#define INTERRUPTS 256

/* ---- starting processors, and the local APIC of a processor that is started again ----
 * SDM Vol. 3, "Typical BSP Initialization Sequence"; "Local APIC State After an INIT Reset
 * ("Wait-for-SIPI" State)". */

#define INIT_US 10000 /* SDM: from the INIT to the first SIPI */

/* The waits for the processor after the first SIPI (SDM: from the first SIPI to the second) and
 * after the second, in which the processor must have started. */
static const unsigned start_up_us[] = {200, 1000000};

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
    for (unsigned i = 0; i < LENGTH_OF(start_up_us); i++)
        if (apic_send(apic_id, start_up) && wait_us(start_up_us[i], started))
            return true;
    /* A processor that starts even later would run in a page that belongs to the guest by then. */
    (void)apic_send(apic_id, ICR_INIT);
    return false;
}

static bool has_interrupt_in_service(void)
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

/* The registers' values after an INIT, in the order in which they are written. The spurious-vector
 * register comes last, because it disables the local APIC. */
static const struct {
    uint32_t offset;
    uint32_t value;
    bool only_xapic; /* in x2APIC mode, the register cannot be written */
} init_state[] = {
    {APIC_TPR, 0, false},
    {APIC_TIMER_INITIAL, 0, false},
    {APIC_TIMER_DIVIDE, 0, false},
    {APIC_LVT_TIMER, LVT_MASKED, false},
    {APIC_LVT_THERMAL, LVT_MASKED, false},
    {APIC_LVT_PMI, LVT_MASKED, false},
    {APIC_LVT_LINT0, LVT_MASKED, false},
    {APIC_LVT_LINT1, LVT_MASKED, false},
    {APIC_LVT_ERROR, LVT_MASKED, false},
    {APIC_LDR, 0, true},
    {APIC_DFR, DFR_RESET, true},
    {APIC_ICR_HIGH, 0, true},
    {APIC_SVR, SVR_RESET, false},
};

void apic_set_init_state(void)
{
    uint64_t base = rdmsr(IA32_APIC_BASE);

    if (!(base & APIC_BASE_EN))
        return;
    for (unsigned i = 0; i < INTERRUPTS && has_interrupt_in_service(); i++)
        apic_write(APIC_EOI, 0);
    for (unsigned i = 0; i < LENGTH_OF(init_state); i++)
        if (!init_state[i].only_xapic || !(base & APIC_BASE_EXTD))
            apic_write(init_state[i].offset, init_state[i].value);
}
