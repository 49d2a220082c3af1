/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Linux shows of a machine in files.
 */
#pragma once

#include "metal/check/machine.h"

/* A whole file, with a zero byte after it; NULL: it cannot be read. To be freed. */
char *file_text(const char *path, size_t *length);
/* Runs a program of PATH and waits for its end. */
void run_program(const char *name, const char *argument);
void add_fact(struct machine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

void read_memory_map(struct machine *m);
/* As the kernel was told. */
void read_screen(struct machine *m);
void read_tables(struct machine *m);
/* Of the units that the table DMAR names: by sysfs, else from /dev/mem. */
void read_units(struct machine *m);
void read_secure_boot(struct machine *m);
/* The installed pmuvisor.cfg and the free space. `esp`: NULL: the usual places are looked at.
 * False: the one that was given is none. */
bool read_esp(struct machine *m, const char *esp, char why[WHY_MAX]);
