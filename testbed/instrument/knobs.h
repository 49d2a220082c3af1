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
};

/* Reads the file. An unknown knob or a bad value ends the program with one line. */
void knobs_init();

const Knobs &knobs();

#endif
