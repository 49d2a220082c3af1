// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * branchtrace: every taken branch of one thread between two ioctls, by reading the last branch
 * records at a PMI every few branches. Owns the processor's general counters, by the kernel's own
 * reservation, and with them the branch records: perf cannot count while a trace is set up, and a
 * trace cannot be set up while perf counts.
 *
 * One open file traces one thread, on the processor that it has been bound to. `pmu.c` programs the
 * hardware, `device.c` is the device.
 */
#include <linux/module.h>

#include "branchtrace.h"

static int __init branchtrace_init(void)
{
    int error = pmu_check();

    return error ? error : branchtrace_device_register();
}

static void __exit branchtrace_exit(void) { branchtrace_device_unregister(); }

module_init(branchtrace_init);
module_exit(branchtrace_exit);

MODULE_DESCRIPTION("Complete lists of taken branches");
MODULE_LICENSE("Dual BSD/GPL");
