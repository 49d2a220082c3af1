/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers the rings: the option for their size, and their memory, which the guest may read.
 */
#include "experiment.h"

#include "experiments/shared/hypervisor/options.h"
#include "experiments/shared/hypervisor/ring.h"

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

const struct experiment shared_experiment = {
    .name = "shared",
    .options = options,
    .option_count = LENGTH_OF(options),
    .needs_tsc = ring_is_wanted,
    .readable = ring_readable,
    .reserve = ring_reserve,
    .place = &ring_place,
    .state_bytes = sizeof(struct cpu_trace),
};
EXPERIMENT(shared_experiment);
