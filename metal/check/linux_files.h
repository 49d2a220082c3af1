/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Linux shows of a machine in files, as lines of a dump (metal/check/README.md).
 */
#pragma once

#include <stdio.h>

#include "metal/check/machine.h"

/* A whole file, with a zero byte after it; NULL: it cannot be read. To be freed. */
char *file_text(const char *path, size_t *length);
/* Runs a program of PATH and waits for its end. */
void run_program(const char *name, const char *argument);
/* Writes a line WORD TEXT. A control character becomes '?'. */
void write_line(FILE *out, const char *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void write_memory_map(FILE *out);
void write_tables(FILE *out);
/* Of the units that the table DMAR names: by sysfs, else from /dev/mem. */
void write_units(FILE *out);
void write_secure_boot(FILE *out);
/* The installed pmuvisor.cfg and the free space. `esp`: NULL: the usual places are looked at.
 * False: the one that was given is none. */
bool write_esp(FILE *out, const char *esp, char why[WHY_MAX]);
