/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The VM-entry checks on the guest-state area, done again in software so that a failed entry can
 * be told apart by field. SDM Vol. 3, "Checking and Loading Guest State".
 */
#pragma once

#include <stdbool.h>

/* Checks the current VMCS and logs one line for each field that is wrong. True: none is. */
bool check_guest_state(void);
