/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Derives what applies on this machine from what the user asked for.
 */
#pragma once

#include "options.h"

/* Returns the settings of a machine with this number of processors in the MADT. */
struct settings settings_derive(const struct options *asked, uint32_t processors);
