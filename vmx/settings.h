/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Derives the settings that apply on this machine from the options that the user chose.
 */
#pragma once

#include "options.h"

/* Returns the settings of a machine with this number of processors in the MADT. */
struct settings settings_derive(const struct options *asked, uint32_t processors);
