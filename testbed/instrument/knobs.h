/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The knobs: what a test may ask of the machine, read once from the text file that TB_KNOBS names.
 * Format and meaning: README.md, "Knobs".
 */
#ifndef TB_KNOBS_H
#define TB_KNOBS_H

#include <cstdint>
#include <string>
#include <vector>

struct Knobs {
    /* Hardware resets after power-on that do not end the run. */
    unsigned resets_allowed = 0;
    /* Instructions from a counter's overflow to its PMI. */
    unsigned pmi_skid = 0;
    /* The processor has a PMU. */
    bool pmu = true;
    /* What CPUID says that the TSC runs at; 0 leaves the model's own answer. */
    uint32_t tsc_hz = 0;
};

/* Reads the file. An unknown knob or a bad value ends the program with one line. */
void knobs_init();

const Knobs &knobs();

#endif
