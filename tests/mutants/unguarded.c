/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose guard pages are mapped: a stack that overflows must be seen to go unnoticed.
 */
#include "mm/mm.h"

void __wrap_host_paging_unmap(uint64_t root, uint64_t address) {}
