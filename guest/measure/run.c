/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs one experiment or all, and leaves the PMU and LVTPC as they were.
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

bool measure_run(const struct measure_environment *environment, const char *experiment)
{
    bool found = false;

    measure_host = environment;
    measure_failed = 0;
    measure_nmi_strays = 0;
    pmu_save();
    for (unsigned i = 0; i < EXPERIMENTS; i++) {
        if (experiment != NULL && !same(experiment, experiments[i].name))
            continue;
        found = true;
        experiments[i].run();
    }
    pmu_restore();
    return found;
}

uint64_t measure_failures(void) { return measure_failed; }
uint64_t measure_stray_nmis(void) { return measure_nmi_strays; }
