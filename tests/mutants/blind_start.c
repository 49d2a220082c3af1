/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that believes in VMX wherever it is, so that QEMU without it comes to the first VMX
 * instruction, whose fault has to be seen: VMXON with stats=cycles, else VMLAUNCH.
 */
#include "vmx/hypervisor.h"
#include "vmx/start/start.h"

void __real_processor_enter_vmx(struct start *s, bool first);

bool __wrap_hypervisor_check_requirements(const struct boot_info *bi, struct settings *s,
                                          struct refusal *r)
{
    *s = (struct settings){.processors = 1};
    return true;
}

bool __wrap_vmx_is_available(struct refusal *r) { return true; }

void __wrap_vmx_capability_read(struct vmx_capability *c)
{
    *c = (struct vmx_capability){.basic = (uint64_t)VMX_BASIC_MEMORY_TYPE_WB
                                          << VMX_BASIC_MEMORY_TYPE_SHIFT,
                                 .misc = VMX_MISC_ACTIVITY_WAIT_FOR_SIPI,
                                 .ept_vpid = ~0ULL,
                                 .cr0_fixed1 = ~0ULL,
                                 .physical_address_bits = 40,
                                 .execute_disable = true};
    for (unsigned set = 0; set < SET_COUNT; set++)
        c->allowed[set] = ~0ULL << 32; /* none must be 1, each may be */
}

void __wrap_processor_enter_vmx(struct start *s, bool first)
{
    if (s->cpu->boot->options.stats_cycles)
        __real_processor_enter_vmx(s, first);
}
