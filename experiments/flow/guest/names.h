/* SPDX-License-Identifier: BSD-2-Clause
 *
 * names.h: the guest's processes by name, for the analyses.
 */
#pragma once

#include <stdio.h>

/* Writes the processes that there are now, as JSON (README.md). 0: /proc or the file fails. */
int names_write(FILE *out);
