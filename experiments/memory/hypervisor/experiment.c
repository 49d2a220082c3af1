/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the memory trace registers.
 */
#include "experiment.h"

#include "experiments/memory/hypervisor/memory.h"
#include "experiments/memory/hypervisor/options.h"

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

const struct experiment memory_experiment = {
    .name = "memory",
    .options = options, .option_count = LENGTH_OF(options),
    .pages = memory_map_pages,
    .setup = memory_setup,
};
EXPERIMENT(memory_experiment);
