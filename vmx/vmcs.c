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

void vmcs_zero_all(void)
{
#define VMCS_ENCODING(name, code) code,
    static const uint16_t fields[] = {VMCS_FIELDS_16(VMCS_ENCODING) VMCS_FIELDS_64(VMCS_ENCODING)
                                      VMCS_FIELDS_32(VMCS_ENCODING)
                                      VMCS_FIELDS_NATURAL(VMCS_ENCODING)};
#undef VMCS_ENCODING

    /* What is read-only, or not there, fails, which changes nothing. */
    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        __asm__ volatile("vmwrite %1, %0" : : "r"((uint64_t)fields[i]), "r"(0ULL) : "cc", "memory");
}

void vmcs_write_segment(enum segment s, uint16_t selector, uint64_t base, uint32_t limit,
                        uint32_t rights)
{
    vmcs_write_16(SEGMENT_FIELD(VMCS_GUEST_ES_SELECTOR, s), selector);
    vmcs_write_natural(SEGMENT_FIELD(VMCS_GUEST_ES_BASE, s), base);
    vmcs_write_32(SEGMENT_FIELD(VMCS_GUEST_ES_LIMIT, s), limit);
    vmcs_write_32(SEGMENT_FIELD(VMCS_GUEST_ES_ACCESS_RIGHTS, s), rights);
}

void vmcs_access_failed(uint32_t encoding, const char *operation)
{
    /* Read without the checking accessor: with no current VMCS this fails too and leaves 0. */
    uint64_t error = 0;
    __asm__ volatile("vmread %1, %0" : "+r"(error) : "r"((uint64_t)VMCS_INSTRUCTION_ERROR) : "cc");
    hypervisor_fault("%s of %s (0x%04x) failed, VM-instruction error %lu", operation,
                     vmcs_field_name(encoding), encoding, error);
}
