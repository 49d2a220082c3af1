/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that lets VM exits leave IA32_LBR_CTL as it is: the guest must be seen to find root
 * mode's branches among its architectural records.
 */
#include "vmx/capability.h"
#include "vmx.h"

typedef const struct vmx_capability *capability;
typedef const struct options *asked; /* short, because a __wrap_ stands on one line */
typedef struct vmx_controls *chosen;
typedef struct refusal *refused;

bool __real_vmx_controls_choose(capability c, asked o, chosen out, refused r);
bool __wrap_vmx_controls_choose(capability c, asked o, chosen out, refused r);

bool __wrap_vmx_controls_choose(capability c, asked o, chosen out, refused r)
{
    bool good = __real_vmx_controls_choose(c, o, out, r);

    out->value[SET_EXIT] &= ~(uint32_t)EXIT_CLEAR_LBR_CTL;
    return good;
}
