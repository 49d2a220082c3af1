/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that leaves out those of VMX's controls that an MSR of the emulator says, a bit for
 * each. Of Intel PT's: the guest's trace, or the machine, must be seen to be another one without.
 * Of architectural LBRs: the guest must be seen to find root mode's branches among its own.
 */
#include "vmx/capability.h"
#include "vmx.h"
#include "x86.h"

#define MSR_LEFT_OUT 0xfff

bool __real_vmx_controls_choose(const struct vmx_capability *c, const struct options *o,
                                struct vmx_controls *out, struct refusal *r);

static const struct {
    enum control_set set;
    uint64_t bit;
} controls[] = {
    {SET_SECONDARY, SECONDARY_CONCEAL_VMX_FROM_PT},
    {SET_SECONDARY, SECONDARY_PT_GUEST_PHYSICAL},
    {SET_EXIT, EXIT_CONCEAL_FROM_PT},
    {SET_EXIT, EXIT_CLEAR_RTIT_CTL},
    {SET_ENTRY, ENTRY_CONCEAL_FROM_PT},
    {SET_ENTRY, ENTRY_LOAD_RTIT_CTL},
    {SET_EXIT, EXIT_CLEAR_LBR_CTL},
};

bool __wrap_vmx_controls_choose(const struct vmx_capability *c, const struct options *o,
                                struct vmx_controls *out, struct refusal *r)
{
    bool good = __real_vmx_controls_choose(c, o, out, r);
    uint64_t left_out = rdmsr(MSR_LEFT_OUT);

    for (unsigned i = 0; i < LENGTH_OF(controls); i++)
        if (left_out >> i & 1)
            out->value[controls[i].set] &= ~(uint32_t)controls[i].bit;
    return good;
}
