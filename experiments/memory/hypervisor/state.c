/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The values of the memory trace's options.
 */
#include "experiments/memory/hypervisor/state.h"

struct memory_options memory_options;
