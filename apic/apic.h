/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The local APIC, which is the guest's in both modes. Root mode only sends with it.
 * SDM Vol. 3, "Advanced Programmable Interrupt Controller (APIC)".
 */
#pragma once

#include "boot_info.h"

struct cpu;

/* This processor's APIC ID, in whichever mode it is. */
uint32_t apic_id_read(void);

/* The page of the xAPIC's registers, for the hypervisor's page table. */
struct range apic_page(void);

/* Sends an NMI to the processor with this APIC ID. Rules and failure as below. */
bool apic_send_nmi(uint32_t apic_id);

/* Whether the local APIC is enabled, globally and by software (SVR bit 8): without it LVTPC cannot
 * be unmasked (SDM Vol. 3, "Local APIC State After It Has Been Software Disabled"). */
bool apic_software_enabled(void);

/* LVTPC, the whole register. SDM Vol. 3, "Local Vector Table". */
uint32_t apic_lvtpc_read(void);
void apic_lvtpc_write(uint32_t value);
#define LVT_MASKED (1u << 16)
#define LVT_DELIVERY_NMI (4u << 8)

/* Sends this processor an NMI through its ICR, addressed by ID because the shorthand "self" is
 * invalid for NMIs. Safe in NMI context. In xAPIC mode the destination (ICR, high half) is put back
 * for a guest that has written it and not yet sent; what the guest may see is that the low half, and
 * in x2APIC mode all of the ICR, reads back as the NMI's. False: nothing was sent, since the APIC is
 * globally disabled or its last send does not end. SDM Vol. 3, "Interrupt Command Register (ICR)". */
bool apic_send_self_nmi(void);

/* The guest's WRMSR of IA32_APIC_BASE: changes of mode are done on the hardware, a change of the
 * base is refused. False: #GP. */
bool apic_base_write(struct cpu *cpu, uint64_t value);
