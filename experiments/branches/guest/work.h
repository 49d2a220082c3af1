/* SPDX-License-Identifier: BSD-2-Clause
 * work.h: stretches of code to be traced, of a length that the scale sets.
 */
#pragma once

struct work {
    const char *name;
    const char *what;
    void (*run)(void *scale); /* unsigned */
};

extern const struct work works[];
/* NULL: there is none of that name. */
const struct work *work_named(const char *name);
