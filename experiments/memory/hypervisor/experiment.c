/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the memory trace registers.
 */
#include "experiment.h"

#include "experiments/memory/hypervisor/memory.h"
#include "experiments/memory/hypervisor/options.h"

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

/* The maps', and a log of pages of each processor. */
static uint64_t pages(const struct boot_info *bi, uint64_t tables)
{
    return ring_options.memory == MEMTRACE_OFF ? 0 : memory_map_pages(bi, tables) + ring_count(bi);
}

const struct experiment memory_experiment = {
    .name = "memory",
    .options = options,
    .option_count = LENGTH_OF(options),
    .pages = pages,
    .setup = memory_setup,
};
EXPERIMENT(memory_experiment);
