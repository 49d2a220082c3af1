/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The names of the policies. Pure.
 */
#include "options.h"

const char *policy_name(enum policy policy)
{
    static const char *const names[] = {
        [POLICY_INTERCEPT] = "intercept", [POLICY_MSR] = "msr", [POLICY_MSR_NMI] = "msr+nmi"};
    return names[policy];
}
