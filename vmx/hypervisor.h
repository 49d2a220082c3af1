/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The four functions of vmx/ that boot/ calls.
 */
#pragma once

#include "boot_info.h"
#include "lib/refusal.h"

/* Logs one line for each CPUID register of this processor with bits that this version does not know
 * (vmx/exit/cpuid.c). */
void cpuid_log_unknown_bits(void);

/* Checks that this processor has everything that the options need. Runs under firmware, and changes
 * no state. Logs one list of the capabilities found, and sets *s to the settings that apply on this
 * machine. False: *r says what is missing. */
bool hypervisor_check_requirements(const struct boot_info *bi, struct settings *s,
                                   struct refusal *r);

/* Returns the size in bytes that the pool must have on this machine, for the settings, processors
 * and memory in *bi. The size is a multiple of 2 MiB. */
uint64_t hypervisor_pool_size(const struct boot_info *bi);

/* Takes over the machine, starts the guest and never returns. Call it after boot services have
 * ended, with interrupts off, on firmware's page tables. */
_Noreturn void hypervisor_start(const struct boot_info *bi);
