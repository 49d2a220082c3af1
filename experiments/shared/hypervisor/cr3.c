/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The list of CR3 values whose loads do not exit. SDM Vol. 3, "CR3-Target Controls".
 */
#include "experiments/shared/hypervisor/cr3.h"

void trace_set_cr3_targets(uint64_t value)
{
    vmcs_write_natural(VMCS_CR3_TARGET_VALUE_0, value);
    vmcs_write_natural(VMCS_CR3_TARGET_VALUE_1, value ^ CR3_NO_FLUSH);
    vmcs_write_natural(VMCS_CR3_TARGET_VALUE_2, value ^ CR3_USER_SIDE);
    vmcs_write_natural(VMCS_CR3_TARGET_VALUE_3, value ^ CR3_USER_SIDE ^ CR3_NO_FLUSH);
}
