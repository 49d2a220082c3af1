/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The local APIC, which is the guest's in both modes. Root mode only sends with it.
 * SDM Vol. 3, "Advanced Programmable Interrupt Controller (APIC)".
 */
#pragma once

#include "apic/apic_registers.h"
#include "boot_info.h"

/* This processor's APIC ID, in whichever mode it is. */
uint32_t apic_id_read(void);

/* The page of the xAPIC's registers, for the hypervisor's page table. */
struct range apic_page(void);

/* A register by its offset in the xAPIC's page, in whichever mode the local APIC is; one that both
 * have. Safe in NMI context. */
uint32_t apic_read(uint32_t offset);
void apic_write(uint32_t offset, uint32_t value);

/* Writes the ICR: sends `command` to the processor with this APIC ID, or false: nothing was sent,
 * since the APIC is globally disabled, its last send does not end, or xAPIC mode cannot name the
 * ID. Safe in NMI context. In xAPIC mode the destination (ICR, high half) is put back for a guest
 * that has written it and not yet sent; what the guest may see is that the low half, and in x2APIC
 * mode all of the ICR, reads back as this one. SDM Vol. 3, "Interrupt Command Register (ICR)". */
bool apic_send(uint32_t apic_id, uint32_t command);

/* Whether the local APIC is enabled, globally and by software (SVR bit 8): without it LVTPC cannot
 * be unmasked (SDM Vol. 3, "Local APIC State After It Has Been Software Disabled"). */
bool apic_software_enabled(void);

/* LVTPC, the whole register. SDM Vol. 3, "Local Vector Table". */
uint32_t apic_lvtpc_read(void);
void apic_lvtpc_write(uint32_t value);

/* To all processors but this one, whatever the guest has done with this one's local APIC: at the
 * end. */
void apic_send_others(uint32_t command);

/* Sends this processor an NMI, addressed by ID because the shorthand "self" is invalid for NMIs. */
bool apic_send_self_nmi(void);

/* What an INIT does to the local APIC, as far as software can: all but the interrupts that wait in
 * the IRR, and the ESR. SDM Vol. 3, "Local APIC State After an INIT Reset ("Wait-for-SIPI" State)".
 */
void apic_init_state(void);
/* Its first step, one write: no source of the local APIC's own sends anything any more. */
void apic_software_disable(void);

/* Starts a processor at `page` below 1 MiB by INIT and two SIPIs; *started turns true there. Waits
 * for it for a second at most, and leaves one that does not come in wait-for-SIPI state. SDM Vol.
 * 3, "Typical BSP Initialization Sequence". */
bool apic_start_processor(uint32_t apic_id, uint64_t page, const volatile bool *started);
