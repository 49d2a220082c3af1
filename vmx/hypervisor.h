/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The four calls that boot/ makes into the rest of the hypervisor.
 */
#pragma once

#include "boot_info.h"
#include "lib/refusal.h"

/* Logs one line that names the CPUID bits of this processor that this version does not know, if
 * there are any (vmx/exit/cpuid.c). */
void cpuid_log_unknown(void);

/* Checks that this processor has everything that the options need, under firmware and without
 * changing any state. Logs one list of what it found, and sets *s to the settings that apply on
 * this machine. False: *r says what is missing. */
bool hypervisor_check(const struct boot_info *bi, struct settings *s, struct refusal *r);

/* Returns the bytes that the pool must have on this machine, for the settings, processors and
 * memory that *bi names. A multiple of 2 MiB. */
uint64_t hypervisor_pool_size(const struct boot_info *bi);

/* Takes over the machine, starts the guest and never returns. Call it after boot services ended,
 * with interrupts off, on firmware's page tables. */
_Noreturn void hypervisor_start(const struct boot_info *bi);
