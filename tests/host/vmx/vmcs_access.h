/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes the place of vmx/vmcs_access.h: ../instructions.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

_Noreturn void vmcs_access_failed(uint32_t encoding, bool write);
uint64_t vmcs_read_raw(uint32_t encoding);
void vmcs_write_raw(uint32_t encoding, uint64_t value);
