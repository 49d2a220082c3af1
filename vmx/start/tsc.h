/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The TSC's frequency, from CPUID or else measured.
 */
#pragma once

#include <stdint.h>

#include "x86.h"

/* Returns the frequency in kHz, or 0 if it cannot be found. Logs a line with the source. `pm_timer`
 * is the I/O port of ACPI's PM timer; 0: there is none. Call it with interrupts off. Takes 50 ms if
 * it has to measure, and at most 2 s if no timer counts. */
uint64_t tsc_khz(uint16_t pm_timer);

/* ---- parts of tsc_khz(), for tests ---- */

/* Returns the frequency in kHz that CPUID reports, or 0. `ask` executes CPUID. Sets *leaf to the
 * leaf that reports it. */
uint64_t tsc_read_cpuid_khz(struct cpuid_result (*ask)(uint32_t leaf, uint32_t subleaf),
                            uint32_t *leaf);

/* A counter that runs at a known rate. */
struct tsc_clock {
    uint32_t hz;                     /* the counter's rate */
    uint32_t mask;                   /* the bits that count */
    uint16_t port;                   /* passed to read() */
    uint32_t (*read)(uint16_t port); /* reads the counter */
    uint64_t (*tsc)(void);           /* reads the TSC */
};
/* Returns the TSC's frequency in kHz, measured by `clock`. 0: the clock does not count. */
uint64_t tsc_measure_khz(const struct tsc_clock *clock);
