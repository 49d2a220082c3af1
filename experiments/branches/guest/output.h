/* SPDX-License-Identifier: BSD-2-Clause
 * output.h: a list of branches as CSV, and as AFL's map of edges.
 */
#pragma once

#include "list.h"

#include <stdint.h>
#include <stdio.h>

#define MAP_SIZE 65536u

/* How often each edge was taken, at most 255: AFL's map before its classes of counts. The index is
 * a hash of both addresses. */
void map_edges(const struct list *list, uint8_t map[MAP_SIZE]);
/* What inputs have done so far: of each edge, which of AFL's classes of counts (1, 2, 3, 4-7, 8-15,
 * 16-31, 32-127, 128 and more). */
struct coverage {
    uint8_t seen[MAP_SIZE];
    uint8_t now[MAP_SIZE]; /* all 0 between two calls */
};
/* Adds a list; true: it has an edge or a class that was not there. */
bool coverage_add(struct coverage *coverage, const struct list *list);
/* As afl-showmap -r writes it: a line NNNNNN:COUNT for each entry that is not 0. */
bool map_write(FILE *out, const uint8_t map[MAP_SIZE]);
/* A header, then a line for each branch. `cycles` is empty where a readout or missing branches lie
 * before, so that the count is not of the program's code alone. `cpl`: at the branch's target. */
bool csv_write(FILE *out, const struct list *list);
