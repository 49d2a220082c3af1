/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exceptions for the guest. SDM Vol. 3, "VM-Entry Controls for Event Injection".
 */
#include "vmx/inject.h"

static void inject_exception(uint8_t vector, bool has_error_code)
{
    uint32_t information = vector | INTERRUPTION_VALID |
                           INTERRUPTION_TYPE_HARDWARE_EXCEPTION << INTERRUPTION_TYPE_SHIFT;

    /* In real mode there are no error codes, and the entry would fail with one. */
    if (has_error_code && vmcs_read_natural(VMCS_GUEST_CR0) & CR0_PE) {
        information |= INTERRUPTION_ERROR_CODE;
        vmcs_write_32(VMCS_ENTRY_EXCEPTION_ERROR_CODE, 0);
    }
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, information);
    /* A fault pushes RF as 1, an injected one what the guest has ("Details of Vectored-Event
     * Injection"): the instruction is tried again. What waits in a shadow is lost, as natively. */
    execute_again();
}

void inject_gp(void) { inject_exception(VECTOR_GP, true); }
void inject_df(void) { inject_exception(VECTOR_DF, true); }
void inject_ud(void) { inject_exception(VECTOR_UD, false); }
