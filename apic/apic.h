/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The local APIC, in xAPIC and in x2APIC mode. It belongs to the guest. Root mode uses it to send
 * INITs, SIPIs and NMIs, to read and write LVTPC, and to reset the local APIC when the guest's
 * processor gets an INIT. SDM Vol. 3, "Advanced Programmable Interrupt Controller (APIC)".
 */
#pragma once

#include "apic/apic_registers.h"
#include "boot_info.h"

/* Returns this processor's APIC ID, whichever mode the local APIC is in. */
uint32_t apic_id_read(void);

/* Returns the page of the xAPIC's registers, which the hypervisor's page tables map. */
struct range apic_page(void);

/* Reads or writes a register by its offset in the xAPIC's page, whichever mode the local APIC is
 * in. The register must exist in both modes. Safe in NMI context. */
uint32_t apic_read(uint32_t offset);
void apic_write(uint32_t offset, uint32_t value);

/* Sends `command` to the processor with this APIC ID, by a write of the ICR. Returns false if
 * nothing was sent, because the APIC is globally disabled, its previous send does not end, or xAPIC
 * mode cannot address the ID. Safe in NMI context.
 *
 * In xAPIC mode, the guest may have written the destination (ICR, high half) and not yet sent. So
 * apic_send() restores the destination. The guest may notice that the ICR's low half reads back as
 * this command. In x2APIC mode, the whole ICR reads back as this command. SDM Vol. 3, "Interrupt
 * Command Register (ICR)". */
bool apic_send(uint32_t apic_id, uint32_t command);

/* Returns whether the local APIC is enabled, globally and by software (SVR bit 8). While the local
 * APIC is disabled, LVTPC cannot be unmasked (SDM Vol. 3, "Local APIC State After It Has Been
 * Software Disabled"). */
bool apic_is_software_enabled(void);

/* Read and write the whole of LVTPC. SDM Vol. 3, "Local Vector Table". */
uint32_t apic_lvtpc_read(void);
void apic_lvtpc_write(uint32_t value);

/* Sends `command` to all processors except this one. Works whatever the guest has done to this
 * processor's local APIC. Used when the machine ends. */
void apic_send_others(uint32_t command);

/* Sends this processor an NMI, addressed by ID because the shorthand "self" is invalid for NMIs. */
bool apic_send_self_nmi(void);

/* Puts the local APIC into the state after an INIT, as far as software can. Does not change the ESR
 * or the interrupts that wait in the IRR. SDM Vol. 3, "Local APIC State After an INIT Reset
 * ("Wait-for-SIPI" State)". */
void apic_set_init_state(void);
/* Disables the local APIC by software, in one write. Root mode does this at once when the guest's
 * processor gets an INIT. Afterwards, none of the local APIC's own sources sends anything. */
void apic_software_disable(void);

/* Starts a processor at `page` below 1 MiB by INIT and two SIPIs. The started processor sets
 * *started. This function waits for *started for at most about one second, and returns whether the
 * processor has started. If not, the processor is left in wait-for-SIPI state. SDM Vol. 3, "Typical
 * BSP Initialization Sequence". */
bool apic_start_processor(uint32_t apic_id, uint64_t page, const volatile bool *started);
