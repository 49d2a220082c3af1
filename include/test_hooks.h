/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The test build (make TEST=1): hypercalls by which a guest raises host NMIs, starts a second guest
 * and makes root mode fault. No other build has any of it. Numbers in include/hypercall.h.
 */
#pragma once

#include <stdint.h>

struct cpu;

#ifdef TEST
#define TEST_HOOKS 1
int64_t test_request_word(struct cpu *cpu);
int64_t test_backtrace(struct cpu *cpu);
int64_t test_source(struct cpu *cpu);
int64_t test_other_guest(struct cpu *cpu);
int64_t test_fault(struct cpu *cpu);
int64_t test_msr(struct cpu *cpu);
int64_t test_spin(struct cpu *cpu);
#else
#define TEST_HOOKS 0
#endif
