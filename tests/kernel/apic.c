/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The local APIC as tests use it, in xAPIC and x2APIC mode.
 * SDM Vol. 3, "Local APIC", "Extended XAPIC (x2APIC)", "Interrupt Command Register (ICR)".
 */
#include "kernel.h"

#define ICR_STATUS BIT(12)
#define ICR_ALL_BUT_SELF (3u << 18)
#define APIC_BASE_ADDRESS BITS(51, 12)
#define CPUID_1_ECX_X2APIC BIT(21)

static volatile uint32_t *at(uint32_t offset)
{
    return (volatile uint32_t *)((rdmsr(IA32_APIC_BASE) & APIC_BASE_ADDRESS) + offset);
}

/* By MOV, as Linux does it: a compiler may test a volatile variable in memory, by an instruction
 * that apic=trap does not know. */
static uint32_t load(uint32_t offset)
{
    uint32_t value;

    __asm__ volatile("movl %1, %0" : "=r"(value) : "m"(*at(offset)));
    return value;
}

static void store(uint32_t offset, uint32_t value)
{
    __asm__ volatile("movl %1, %0" : "=m"(*at(offset)) : "ri"(value));
}

bool apic_x2(void) { return rdmsr(IA32_APIC_BASE) & APIC_BASE_EXTD; }

bool apic_enter_x2(void)
{
    if (!(cpuid(1, 0).ecx & CPUID_1_ECX_X2APIC))
        return false;
    wrmsr(IA32_APIC_BASE, rdmsr(IA32_APIC_BASE) | APIC_BASE_EXTD);
    return true;
}

uint32_t apic_read(uint32_t offset)
{
    return apic_x2() ? (uint32_t)rdmsr(X2APIC_MSR + offset / 16) : load(offset);
}

void apic_write(uint32_t offset, uint32_t value)
{
    if (apic_x2())
        wrmsr(X2APIC_MSR + offset / 16, value);
    else
        store(offset, value);
}

void apic_self_nmi(void)
{
    uint32_t command = ICR_NMI | ICR_ASSERT;

    if (apic_x2()) {
        wrmsr(X2APIC_ICR, (uint64_t)apic_read(APIC_ID) << 32 | command);
        return;
    }
    store(APIC_ICR_HIGH, load(APIC_ID));
    store(APIC_ICR_LOW, command);
    while (load(APIC_ICR_LOW) & ICR_STATUS)
        ;
}

uint32_t apic_id(void)
{
    return apic_x2() ? apic_read(APIC_ID) : apic_read(APIC_ID) >> XAPIC_ID_SHIFT;
}

void apic_send(uint32_t id, uint32_t command)
{
    if (apic_x2()) {
        wrmsr(X2APIC_ICR, (uint64_t)id << 32 | command);
        return;
    }
    store(APIC_ICR_HIGH, id << XAPIC_ID_SHIFT);
    store(APIC_ICR_LOW, command);
    while (load(APIC_ICR_LOW) & ICR_STATUS)
        ;
}

void apic_send_others(uint32_t command) { apic_send(0, command | ICR_ALL_BUT_SELF); }

uint32_t apic_read_lvtpc(void) { return apic_read(APIC_LVT_PMI); }
void apic_write_lvtpc(uint32_t value) { apic_write(APIC_LVT_PMI, value); }
uint32_t apic_icr_high(void) { return apic_x2() ? 0 : load(APIC_ICR_HIGH); }

void apic_set_icr_high(uint32_t value)
{
    if (!apic_x2())
        store(APIC_ICR_HIGH, value);
}

void apic_eoi(void) { apic_write(APIC_EOI, 0); }

void apic_software_enable(bool on)
{
    uint32_t svr = apic_read(APIC_SVR) & ~SVR_SOFTWARE_ENABLE;

    apic_write(APIC_SVR, svr | (on ? SVR_SOFTWARE_ENABLE : 0));
}
