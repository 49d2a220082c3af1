/* SPDX-License-Identifier: BSD-2-Clause
 *
 * From what the user asked for to what holds on this machine.
 */
#pragma once

#include "options.h"

/* Of a machine with so many processors in the MADT, and IA32_VMX_MISC as VMX has it. A line of the
 * log says what differs from the options. */
struct settings settings_derive(const struct options *asked, uint32_t processors,
                                uint64_t vmx_misc);
