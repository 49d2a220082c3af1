/* SPDX-License-Identifier: BSD-2-Clause
 * usb_fuzz.c: the mutation loop of fuzz.c for inputs of the length of usb.h. branchfuzz has the
 * short ones, which it copies for each execution.
 */
#include "usb.h"

#include "fuzz.c"
