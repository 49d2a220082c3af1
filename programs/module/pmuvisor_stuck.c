// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * pmuvisor_stuck: for tests of a panic with several processors: writing to the parameter `stuck`
 * leaves every other processor in a loop with interrupts off, which only an NMI or an INIT ends.
 * SDM Vol. 3, "Nonmaskable Interrupt (NMI)".
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/smp.h>

static void stick(void *unused)
{
    for (;;)
        cpu_relax();
}

static int stuck_set(const char *value, const struct kernel_param *parameter)
{
    smp_call_function(stick, NULL, 0);
    return 0;
}

static const struct kernel_param_ops stuck_ops = {.set = stuck_set};

module_param_cb(stuck, &stuck_ops, NULL, 0200);
MODULE_PARM_DESC(stuck, "all other processors loop for ever");

static int __init stuck_init(void) { return 0; }

module_init(stuck_init);

MODULE_DESCRIPTION("Takes all other processors away from interrupts");
MODULE_LICENSE("Dual BSD/GPL");
