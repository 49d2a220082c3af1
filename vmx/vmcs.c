/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VMCS functions beyond a single access. They write several fields, or some bits of one field. They
 * report a VMREAD or VMWRITE that failed, with the field's name. And they execute INVEPT, which
 * drops all translations that the processor keeps for the guest. SDM Vol. 3, "VM Instruction Error
 * Numbers".
 */
#include "vmx/vmcs.h"

#include "msr.h"
#include "vmx.h"
#include "vmx/root/fault.h"
#include "x86.h"

#define INVALIDATE_ALL 2 /* INVEPT type: all contexts */

#define VMCS_FIELD(name, code) {code, #name},
static const struct {
    uint16_t encoding;
    const char *name;
} fields[] = {VMCS_FIELDS_16(VMCS_FIELD) VMCS_FIELDS_64(VMCS_FIELD) VMCS_FIELDS_32(VMCS_FIELD)
                  VMCS_FIELDS_NATURAL(VMCS_FIELD)};
#undef VMCS_FIELD

static const char *vmcs_field_name(uint32_t encoding)
{
    for (unsigned i = 0; i < LENGTH_OF(fields); i++)
        if (fields[i].encoding == encoding)
            return fields[i].name;
    return "unnamed field";
}

void vmcs_write_all(const struct vmcs_value *values, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        vmcs_write_raw(values[i].encoding, values[i].value);
}

void vmcs_zero_field(uint16_t encoding)
{
    __asm__ volatile("vmwrite %1, %0" : : "r"((uint64_t)encoding), "r"(0ULL) : "cc", "memory");
}

void vmcs_zero_fields(void)
{
    for (unsigned i = 0; i < LENGTH_OF(fields); i++)
        vmcs_zero_field(
            fields[i].encoding); /* fails for a read-only field, and then changes nothing */
}

void vmcs_write_segment(enum segment s, struct segment_state state)
{
    const struct vmcs_value values[] = {
        {SEGMENT_FIELD(VMCS_GUEST_ES_SELECTOR, s), state.selector},
        {SEGMENT_FIELD(VMCS_GUEST_ES_BASE, s), state.base},
        {SEGMENT_FIELD(VMCS_GUEST_ES_LIMIT, s), state.limit},
        {SEGMENT_FIELD(VMCS_GUEST_ES_ACCESS_RIGHTS, s), state.rights},
    };

    vmcs_write_all(values, LENGTH_OF(values));
}

void vmcs_set_primary_controls(uint32_t control, bool on)
{
    uint32_t primary = vmcs_read_32(VMCS_PRIMARY_CONTROLS) & ~control;

    if (on)
        primary |= control & (uint32_t)(rdmsr(IA32_VMX_PROCBASED_CTLS) >> 32);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, primary);
}

void vmcs_access_failed(uint32_t encoding, bool write)
{
    /* Read without vmcs_read_32(), which would call this function again if the read failed. Without
     * a current VMCS the read fails, and `error` stays 0. */
    uint64_t error = 0;
    __asm__ volatile("vmread %1, %0" : "+r"(error) : "r"((uint64_t)VMCS_INSTRUCTION_ERROR) : "cc");
    hypervisor_fault("%s of %s (0x%04x) failed, VM-instruction error %lu",
                     write ? "VMWRITE" : "VMREAD", vmcs_field_name(encoding), encoding, error);
}

void flush_guest_translations(void)
{
    const uint64_t everything[2] = {0, 0};
    bool failed;

    __asm__ volatile("invept %1, %2"
                     : "=@ccbe"(failed)
                     : "m"(everything), "r"((uint64_t)INVALIDATE_ALL)
                     : "memory");
    if (failed)
        hypervisor_fault("INVEPT of all contexts failed");
}
