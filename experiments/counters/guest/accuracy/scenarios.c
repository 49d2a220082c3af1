/* SPDX-License-Identifier: BSD-2-Clause
 * scenarios.c: one program in the arrangements of R. Nikolaev and G. Back, Perfctr-Xen, VEE 2011,
 * section 5.1.1: alone; two threads on one processor (theirs: 2), on two (1), moved between two at
 * any time (4). What they do with a second domain (3) takes a second guest, which this has not.
 */
#include "accuracy.h"

#define PROCESSORS_WANTED 2u

/* Those that take two processors. */
static bool several(enum place place, char letter, uint32_t region, const struct options *options)
{
    if (processors_usable() >= PROCESSORS_WANTED)
        return passes_together(&mixed_program, place, letter, region, options);
    for (unsigned i = 0; i <= EVENTS; i++) {
        for (unsigned t = 1; t <= THREADS; t++) {
            print_skip("one processor, wanted two", "%s.%s.%c%u", mixed_program.name,
                       i < EVENTS ? event_names[i] : "tsc", letter, t);
        }
    }
    return true;
}

bool scenarios(const struct options *options)
{
    return passes_alone(&mixed_program, PAGES_PLACED, REGION_SCENARIOS + REGION_ALONE, options) &&
           passes_together(&mixed_program, PLACE_SHARED, 't', REGION_SCENARIOS + REGION_THREADS,
                           options) &&
           several(PLACE_OWN, 'p', REGION_SCENARIOS + REGION_OWN, options) &&
           several(PLACE_MIGRATED, 'm', REGION_SCENARIOS + REGION_MIGRATED, options);
}
