/* SPDX-License-Identifier: BSD-2-Clause
 * drivers.h: kernel drivers as targets: an input is system calls to one. None has a planted bug.
 */
#pragma once

#include "targets.h"
#include "trace.h"

#define DRIVERS 7

extern const struct target drivers[DRIVERS];
extern uint64_t driver_calls; /* system calls since the start */

/* The system calls that these bytes say, to an open file. */
void driver_use(int file, const unsigned long *commands, unsigned commands_count,
                const uint8_t *data, const uint8_t *end);

/* Loads what is a module, and makes their files. False: one line says which cannot be opened. */
bool drivers_open(void);
