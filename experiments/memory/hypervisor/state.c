/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the options say, and where each processor's state begins.
 */
#include "experiments/memory/hypervisor/memory.h"

struct memory_options memory_options;
uint64_t memory_place;
