/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that asks none of its NMI sources: every NMI of the host's must be seen to reach the
 * guest, and to stay unhandled.
 */
#include "nmi/nmi.h"

unsigned __wrap_nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root)
{
    return 0;
}
