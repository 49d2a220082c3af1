/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers of the local APIC by their offset in the xAPIC's page, and their fields. Plain
 * constants. SDM Vol. 3, "Local APIC Register Address Map" and the figures of the registers.
 */
#pragma once

#include "bits.h"

#define APIC_REGISTER_BYTES 0x10
#define X2APIC_REGISTER_SHIFT 4 /* an MSR is IA32_X2APIC_FIRST + (offset >> this) */

#define APIC_ID 0x020
#define XAPIC_ID_SHIFT 24 /* position of an ID or a destination in its register */
#define XAPIC_ID_MAX 0xfe /* 255 addresses all processors */
#define APIC_TPR 0x080
#define APIC_EOI 0x0b0
#define APIC_LDR 0x0d0
#define APIC_DFR 0x0e0
#define DFR_RESET 0xffffffffu
#define APIC_SVR 0x0f0
#define SVR_RESET 0xff
#define SVR_SOFTWARE_ENABLE BIT(8)
#define APIC_ISR 0x100
#define ISR_REGISTERS 8
#define APIC_ICR_LOW 0x300
#define APIC_ICR_HIGH 0x310
#define X2APIC_ICR 0x830
#define X2APIC_DESTINATION_SHIFT 32
#define ICR_DELIVERY_STATUS BIT(12)
#define ICR_LEVEL_ASSERT (1u << 14)
#define ICR_NMI (4u << 8 | ICR_LEVEL_ASSERT)
#define ICR_INIT (5u << 8 | ICR_LEVEL_ASSERT)
#define ICR_START_UP (6u << 8 | ICR_LEVEL_ASSERT) /* plus a vector: the page number to start at */
#define ICR_OTHERS (3u << 18)                     /* shorthand "all excluding self" */
#define APIC_LVT_TIMER 0x320
#define APIC_LVT_THERMAL 0x330
#define APIC_LVT_PMI 0x340
#define APIC_LVT_LINT0 0x350
#define APIC_LVT_LINT1 0x360
#define APIC_LVT_ERROR 0x370
#define LVT_MASKED (1u << 16)
#define LVT_DELIVERY BITS(10, 8)
#define LVT_DELIVERY_NMI (4u << 8)
#define APIC_TIMER_INITIAL 0x380
#define APIC_TIMER_DIVIDE 0x3e0
