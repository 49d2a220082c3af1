/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The PMI's way through the local APIC, and what the ledger hears of its arrival. Touches the local
 * APIC through its public register functions. SDM Vol. 3, "Local Vector Table".
 */
#pragma once

#include "ledger.h"
#include "processor.h"

/* The PMU raises its interrupt: freezes, and delivers what LVTPC says. */
void apic_pmi(Processor &p);

/* An NMI arrives. */
void apic_nmi_arrived(Processor &p, Arrival where);

/* An interrupt with this vector arrives. */
void apic_vector_arrived(Processor &p, unsigned vector, Arrival where);
