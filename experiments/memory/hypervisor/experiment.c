/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers the memory trace.
 */
#include "experiment.h"

#include "experiments/memory/hypervisor/state.h"
#include "experiments/memory/hypervisor/options.h"

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

/* Returns the number of pages: those for the maps, and one page-modification log per processor. */
static uint64_t count_pages(const struct boot_info *bi, uint64_t tables)
{
    return ring_options.memory == MEMTRACE_OFF ? 0 : memory_map_pages(bi, tables) + ring_count(bi);
}

const struct experiment memory_experiment = {
    .name = "memory",
    .options = options,
    .option_count = LENGTH_OF(options),
    .pages = count_pages,
    .setup = memory_setup,
};
EXPERIMENT(memory_experiment);
