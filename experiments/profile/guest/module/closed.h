/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
 *
 * closed: a load of the kernel's with short stretches that no interrupt enters, and a sampler of it whose PMI is
 * an interrupt with a vector, not an NMI.
 */
#pragma once

#include <linux/linkage.h>
#include <linux/types.h>

/* So many rounds of the load, from 1; interrupts are on. */
asmlinkage void work_rounds(unsigned int rounds);

struct work_function {
    const char *name;
    unsigned long start, end;
    bool masked; /* it runs with interrupts off */
};

/* The functions of the load; returns how many. */
unsigned int work_functions(const struct work_function **functions);

#define VECTOR_SAMPLES_MAX 8192u

struct vector_samples {
    unsigned int count, dropped;
    unsigned long at[VECTOR_SAMPLES_MAX];
};

/* This processor's PMIs get a vector of their own, and counter 0 counts instructions of the kernel's, `period` from
 * one PMI to the next and some more (vector.c); until vector_stop(). Interrupts are on and preemption is off. Returns 0, or -EBUSY: the
 * counter is perf's. SDM Vol. 3, "Local Vector Table" and "Performance Monitoring Overview". */
int vector_start(struct vector_samples *samples, u32 period);
void vector_stop(void);
