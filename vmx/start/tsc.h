/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The frequency of the TSC: told by CPUID, else measured.
 */
#pragma once

#include <stdint.h>

#include "x86.h"

/* In kHz, 0: nothing tells. One line says what does. `pm_timer` is the I/O port of ACPI's PM timer,
 * 0: there is none. With interrupts off. Takes 50 ms where it has to measure, at most 2 s where
 * no timer counts. */
uint64_t tsc_khz(uint16_t pm_timer);

/* ---- its parts, for tests ---- */

/* What CPUID says, which `ask` executes; *leaf is the one that says it. */
uint64_t tsc_told_khz(struct cpuid_result (*ask)(uint32_t leaf, uint32_t subleaf), uint32_t *leaf);

/* A counter that runs at a known rate. */
struct tsc_clock {
    uint32_t hz;                     /* its rate */
    uint32_t mask;                   /* the bits that count */
    uint16_t port;                   /* passed to read() */
    uint32_t (*read)(uint16_t port); /* reads the counter */
    uint64_t (*tsc)(void);           /* reads the TSC */
};
/* 0: it does not count. */
uint64_t tsc_measured_khz(const struct tsc_clock *clock);
