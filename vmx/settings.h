/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Derives what applies on this machine from what the user asked for.
 */
#pragma once

#include "options.h"

/* Returns the settings of a machine with this number of processors in the MADT and this value of
 * IA32_VMX_MISC. Logs a line about what differs from the options. */
struct settings settings_derive(const struct options *asked, uint32_t processors,
                                uint64_t vmx_misc);
