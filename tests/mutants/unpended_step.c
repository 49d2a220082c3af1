/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that enters the guest in a shadow as if no single step were pending, as an exit
 * there may save it: the entry must fail, be mended and be made again, and the step must come.
 */
#include "vmx/exit/exit.h"

void __real_reexecute_instruction(void);

void __wrap_reexecute_instruction(void)
{
    __real_reexecute_instruction();
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                       vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) &
                           ~(uint64_t)PENDING_DEBUG_BS);
}
