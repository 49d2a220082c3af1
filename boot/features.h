/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Processor features that this version does not know.
 */
#pragma once

/* Logs one line that names the unknown bits, if there are any. */
void features_print_unknown(void);
