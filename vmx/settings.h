/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What holds on this machine, where that may differ from what the user asked for (options.h).
 * Derived once, from options and facts, and changed by nobody afterwards.
 */
#pragma once

#include "options.h"

struct settings {
    bool apic_trap; /* asked for, or needed to see SIPIs being sent */
    bool monitor_hidden; /* MONITOR and MWAIT are not shown: idle is HLT */
    uint32_t processors; /* that are started at most, the first one with them */
};

/* Of a machine with so many processors in the MADT, and IA32_VMX_MISC as VMX has it. A line of the
 * log says what differs from the options. */
struct settings settings_derive(const struct options *asked, uint32_t processors,
                                uint64_t vmx_misc);
