/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
 *
 * closed: a load of the kernel's with short stretches that no interrupt enters, and a sampler of it
 * whose PMI is an interrupt with a vector, not an NMI.
 */
#pragma once

#include <linux/linkage.h>
#include <linux/types.h>

/* So many rounds of the load, from 1; interrupts are on. */
asmlinkage void work_rounds(unsigned int rounds);

struct work_function {
    const char *name;
    unsigned long start, end;
};

/* The functions of the load; returns how many. */
unsigned int work_functions(const struct work_function **functions);

#define VECTOR_SAMPLES_MAX 8192u

struct vector_samples {
    unsigned int count, dropped;
    unsigned long at[VECTOR_SAMPLES_MAX];
};

/* Until vector_stop() this processor's PMIs have a vector of their own. Counter 0 counts the
 * kernel's instructions, from one PMI to the next `period`, up to 0x7fff0000, and some more
 * (vector.c). Interrupts are on and preemption is off. Returns 0, or -EBUSY: the counter is perf's.
 * SDM Vol. 3, "Local Vector Table" and "Performance Monitoring Overview". */
int vector_start(struct vector_samples *samples, u32 period);
void vector_stop(void);
