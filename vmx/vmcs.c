/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Names for VMCS fields, and the end of a VMREAD or VMWRITE that failed.
 * SDM Vol. 3, "VM Instruction Error Numbers".
 */
#include "vmcs.h"

#include "fault.h"

const char *vmcs_field_name(uint32_t encoding)
{
    switch (encoding) {
#define VMCS_CASE(name, code)                                                                      \
    case code:                                                                                     \
        return #name;
        VMCS_FIELDS_16(VMCS_CASE)
        VMCS_FIELDS_64(VMCS_CASE)
        VMCS_FIELDS_32(VMCS_CASE)
        VMCS_FIELDS_NATURAL(VMCS_CASE)
#undef VMCS_CASE
    default:
        return "unnamed field";
    }
}

void vmcs_access_failed(uint32_t encoding, const char *operation)
{
    /* Read without the checking accessor: with no current VMCS this fails too and leaves 0. */
    uint64_t error = 0;
    __asm__ volatile("vmread %1, %0" : "+r"(error) : "r"((uint64_t)VMCS_INSTRUCTION_ERROR) : "cc");
    hypervisor_fault("%s of %s (0x%04x) failed, VM-instruction error %lu", operation,
                     vmcs_field_name(encoding), encoding, error);
}
