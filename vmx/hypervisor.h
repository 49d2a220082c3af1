/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The three calls between boot/ and the rest.
 */
#pragma once

#include "boot_info.h"
#include "lib/refusal.h"

/* Checks, under firmware and without changing any state, that this processor has all that the
 * options need; logs one list of what was found. *s is what holds here. False: *r says what is
 * missing. */
bool hypervisor_check(const struct boot_info *bi, struct settings *s, struct refusal *r);

/* How many bytes the pool must have on this machine (a multiple of 2 MiB), for the settings, the
 * processors and the memory that *bi names. */
uint64_t hypervisor_pool_size(const struct boot_info *bi);

/* Takes the machine: runs after boot services ended, interrupts off, on firmware's page tables.
 * Starts the guest and never returns. */
_Noreturn void hypervisor_start(const struct boot_info *bi);
