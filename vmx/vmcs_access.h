/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VMREAD and VMWRITE. Code uses the typed functions of vmx/vmcs.h instead. On the host,
 * tests/host/vmx/vmcs_access.h takes the place of this header.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Ends the machine with a line that names the field and the VM-instruction error. Once setup has
 * accessed a field, a VMREAD or VMWRITE of that field cannot fail, so a call of this function shows
 * a defect. */
_Noreturn void vmcs_access_failed(uint32_t encoding, bool write);

/* These accesses return a flag and do not use asm goto: before version 12.4, gcc may keep the old
 * value of a variable that gets the output of an asm goto. */
static inline uint64_t vmcs_read_raw(uint32_t encoding)
{
    uint64_t value;
    bool failed;

    __asm__ volatile("vmread %[encoding], %[value]"
                     : [value] "=r"(value), "=@ccbe"(failed)
                     : [encoding] "r"((uint64_t)encoding));
    if (failed)
        vmcs_access_failed(encoding, false);
    return value;
}

static inline void vmcs_write_raw(uint32_t encoding, uint64_t value)
{
    bool failed;

    __asm__ volatile("vmwrite %[value], %[encoding]"
                     : "=@ccbe"(failed)
                     : [encoding] "r"((uint64_t)encoding), [value] "r"(value)
                     : "memory");
    if (failed)
        vmcs_access_failed(encoding, true);
}
