/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Typed access to the current VMCS: one C type per field width, so that a 32-bit field cannot be
 * written with a 64-bit accessor. SDM Vol. 3, "VMREAD, VMWRITE, and Encodings of VMCS Fields".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bits.h"
#include "vmx/vmcs_access.h"
#include "vmx/vmcs_fields.h"

#define VMCS_ENUMERATOR(name, encoding) VMCS_##name = (encoding),
enum vmcs_16 { VMCS_FIELDS_16(VMCS_ENUMERATOR) };
enum vmcs_64 { VMCS_FIELDS_64(VMCS_ENUMERATOR) };
enum vmcs_32 { VMCS_FIELDS_32(VMCS_ENUMERATOR) };
enum vmcs_natural { VMCS_FIELDS_NATURAL(VMCS_ENUMERATOR) };
#undef VMCS_ENUMERATOR

#define VMCS_ACCESSORS(suffix, type)                                                               \
    static inline type vmcs_read_##suffix(enum vmcs_##suffix field)                                \
    {                                                                                              \
        return (type)vmcs_read_raw(field);                                                         \
    }                                                                                              \
    static inline void vmcs_write_##suffix(enum vmcs_##suffix field, type value)                   \
    {                                                                                              \
        vmcs_write_raw(field, value);                                                              \
    }
VMCS_ACCESSORS(16, uint16_t)
VMCS_ACCESSORS(32, uint32_t)
VMCS_ACCESSORS(64, uint64_t)
VMCS_ACCESSORS(natural, uint64_t)
#undef VMCS_ACCESSORS

/* A field's encoding and its value. The processor ignores the bits of `value` above the field. */
struct vmcs_value {
    uint16_t encoding;
    uint64_t value;
};
/* Writes these fields, which the processor must have. */
void vmcs_write_all(const struct vmcs_value *values, unsigned count);
/* Writes 0 to a field. If the processor lacks the field, the write fails and changes nothing. */
void vmcs_zero_field(uint16_t encoding);
/* Calls vmcs_zero_field() for every field that vmcs_fields.h names. */
void vmcs_zero_fields(void);

/* The guest's segment registers, in the order of their fields. */
enum segment {
    SEGMENT_ES,
    SEGMENT_CS,
    SEGMENT_SS,
    SEGMENT_DS,
    SEGMENT_FS,
    SEGMENT_GS,
    SEGMENT_LDTR,
    SEGMENT_TR
};
/* The encodings of a field for two neighbouring segments differ by 2. So
 * SEGMENT_FIELD(VMCS_GUEST_ES_BASE, s) is the base of `s`. */
#define SEGMENT_FIELD(field_of_es, segment) ((field_of_es) + 2 * (segment))
struct segment_state {
    uint16_t selector;
    uint64_t base;
    uint32_t limit;
    uint32_t rights;
};
void vmcs_write_segment(enum segment s, struct segment_state state);

/* Sets or clears primary controls, which take effect at the next entry. A control that this
 * processor does not allow stays 0. */
void vmcs_set_primary_controls(uint32_t control, bool on);

/* Drops all of the guest's translations on this processor. Call it in VMX operation. */
void flush_guest_translations(void);
