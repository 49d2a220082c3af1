/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rings.h: the rings of the processors that are traced, and the file that they are drained to.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hypervisor.h"
#include "traced_rings.h"

/* Maps the ring of a processor, which records are read from from now on. 0, or 1 with a line said.
 */
int rings_add(int processor);
/* Turns memory traces on all of the rings' processors on or off. 0, or 1 with a line said. */
int rings_turn(const struct memory_request *request);
/* Begins the file. `mode`: MEMTRACE_*. */
int rings_file(const char *path, uint32_t mode);
/* Writes all that is there now. `most`, where it is not NULL, becomes the share of a ring that was
 * filled since the last time, in percent. */
int rings_drain(unsigned *most);
/* Writes the file's head again, with what is known at the end, closes it, and says the sum. */
int rings_finish(void);
