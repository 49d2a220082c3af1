/* SPDX-License-Identifier: BSD-2-Clause
 *
 * HYPERCALL_TEST_OTHER_GUEST.
 */
#pragma once

#include <stdint.h>

struct cpu;

int64_t test_other_guest(struct cpu *cpu);
