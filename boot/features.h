/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a processor has that this version does not know.
 */
#pragma once

/* One line in the log that names the bits, where there are any. */
void features_print_unknown(void);
