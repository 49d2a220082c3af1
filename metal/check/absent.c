/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The image's assembly, which a program under Linux cannot have: named by handlers that are never
 * called here.
 */
#include <stdlib.h>

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"
#include "vmx/root/descriptors.h"
#include "vmx/root/fault.h"

extern const char exception_stubs[]; /* vmx/root/descriptors.c */
const char nmi_entry[1], exception_stubs[1];
const char vmx_exit_entry[1], vmx_exit_entry_guarded[1], vmx_exit_entry_timed[1];
void vmx_launch(void) { abort(); }
void nmi_unblock(void) { abort(); }
bool rdpmc_safe(uint32_t index, uint64_t *value)
{
    (void)index, (void)value;
    abort();
}
bool xsetbv_safe(uint32_t index, uint64_t value)
{
    (void)index, (void)value;
    abort();
}
