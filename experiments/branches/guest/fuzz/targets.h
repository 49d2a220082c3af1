/* SPDX-License-Identifier: BSD-2-Clause
 * targets.h: seven small parsers, each with one planted bug.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGETS 7
#ifndef INPUT_MAX
#define INPUT_MAX 64u
#endif

struct target {
    const char *name;
    /* Parses the input; true: the bug was reached. It corrupts nothing. */
    bool (*parse)(const uint8_t *data, size_t size);
    const char *seed; /* the first input */
};

extern const struct target targets[TARGETS];
