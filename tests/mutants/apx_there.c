/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor on a processor that takes APX's bit of XCR0, which no model of the emulator has: the
 * bit itself is left out. The hypervisor must refuse it before.
 */
#include "x86.h"

#include "vmx/root/fault.h"

bool __real_xsetbv_safe(uint32_t index, uint64_t value);

bool __wrap_xsetbv_safe(uint32_t index, uint64_t value)
{
    return __real_xsetbv_safe(index, value & ~(uint64_t)XCR0_APX);
}
