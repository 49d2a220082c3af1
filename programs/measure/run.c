/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs one experiment or all, and leaves the PMU and LVTPC as they were, at the end and whenever
 * the host lets interrupts in.
 */
#include "internal.h"

static const struct {
    const char *name;
    void (*run)(void);
} experiments[] = {
    {"msr", measure_msr},
    {"exit", measure_exit},
    {"pmi", measure_pmi},
    {"a1k", measure_a1k},
};
#define EXPERIMENTS (sizeof(experiments) / sizeof(experiments[0]))

static bool same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

/* What came in the way between two items, if anything did. */
static const char *trouble;

bool item_ready(const struct item *item)
{
    if (trouble == NULL && measure_host->between != NULL) {
        pmu_restore();
        trouble = measure_host->between();
        if (trouble == NULL) {
            pmu_save();
        } else {
            measure_failed++;
            measure_host->print("measure: %s %s: %s\n", item->experiment, item->name, trouble);
        }
    }
    if (trouble != NULL)
        item_skip(item, trouble);
    return trouble == NULL;
}

void measure_loop(const struct item *item, loop_function function, const struct loop *loop)
{
    if (item_ready(item))
        item_loop(item, function, loop);
}

bool measure_run(const struct measure_environment *environment, const char *experiment)
{
    bool found = false;

    measure_host = environment;
    measure_failed = 0;
    measure_nmi_strays = 0;
    trouble = NULL;
    pmu_save();
    for (unsigned i = 0; i < EXPERIMENTS; i++) {
        if (experiment != NULL && !same(experiment, experiments[i].name))
            continue;
        found = true;
        experiments[i].run();
    }
    /* Whoever has the PMU now has set it as it wants it. */
    if (trouble == NULL)
        pmu_restore();
    return found;
}

uint64_t measure_failures(void) { return measure_failed; }
uint64_t measure_stray_nmis(void) { return measure_nmi_strays; }
