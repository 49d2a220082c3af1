/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An NMI from outside the processor: the PIT's channel 0, once, on the I/O APIC's input 2, whose
 * delivery mode is NMI. (Intel 8254 and 82093AA data sheets.)
 */
#include "kernel.h"

#define PIT_CHANNEL_0 0x40
#define PIT_COMMAND 0x43
#define PIT_ONE_SHOT 0x30 /* channel 0, both bytes, mode 0: interrupt on terminal count */
#define TIMER_TICKS 11932 /* 10 ms: far longer than the way to the HLT */

#define IO_APIC_SELECT 0xfec00000ULL
#define IO_APIC_WINDOW 0xfec00010ULL
#define IO_APIC_VERSION 1
#define IO_APIC_ENTRY(pin) (0x10 + 2 * (pin))
#define IO_APIC_PIN_PIT 2
#define ENTRY_NMI (4u << 8) /* edge, active high, physical destination */
#define ENTRY_MASKED BIT(16)
#define DESTINATION_SHIFT 24
#define CPUID_1_EBX_APIC_ID_SHIFT 24

static uint32_t io_apic_read(uint32_t index)
{
    *(volatile uint32_t *)IO_APIC_SELECT = index;
    return *(volatile uint32_t *)IO_APIC_WINDOW;
}

static void io_apic_write(uint32_t index, uint32_t value)
{
    *(volatile uint32_t *)IO_APIC_SELECT = index;
    *(volatile uint32_t *)IO_APIC_WINDOW = value;
}

bool timer_nmi_setup(void)
{
    uint32_t version = io_apic_read(IO_APIC_VERSION);
    uint32_t id = cpuid(1, 0).ebx >> CPUID_1_EBX_APIC_ID_SHIFT;

    if (version == ~0u || (version >> 16 & 0xff) < IO_APIC_PIN_PIT)
        return false;
    io_apic_write(IO_APIC_ENTRY(IO_APIC_PIN_PIT), ENTRY_MASKED);
    /* The output goes low now and rises when the time is over. */
    outb(PIT_COMMAND, PIT_ONE_SHOT);
    io_apic_write(IO_APIC_ENTRY(IO_APIC_PIN_PIT) + 1, id << DESTINATION_SHIFT);
    io_apic_write(IO_APIC_ENTRY(IO_APIC_PIN_PIT), ENTRY_NMI);
    return true;
}

void timer_nmi_start(void)
{
    outb(PIT_COMMAND, PIT_ONE_SHOT);
    outb(PIT_CHANNEL_0, TIMER_TICKS & 0xff);
    outb(PIT_CHANNEL_0, TIMER_TICKS >> 8);
}

void timer_nmi_stop(void) { io_apic_write(IO_APIC_ENTRY(IO_APIC_PIN_PIT), ENTRY_MASKED); }
