/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the options say.
 */
#include "experiments/memory/hypervisor/memory.h"

struct memory_options memory_options;
