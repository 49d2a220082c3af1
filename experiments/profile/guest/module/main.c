// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * /proc/closed: a write of "REGION ROUNDS PERIOD" runs the load once, with the vector's sampler
 * unless PERIOD is 0. A read has a line "function NAME START END" of each function, "dropped N",
 * and then a line for each sample.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "closed.h"
#include "region.h"

#define WORDS_MAX 64
#define PERIOD_MAX 0x7fff0000u /* the counter takes 31 bits */

static DEFINE_MUTEX(lock);
static struct vector_samples samples;

static int run(unsigned int region, unsigned int rounds, unsigned int period)
{
    int error = 0;

    samples.count = samples.dropped = 0;
    preempt_disable();
    region_mark(region, true);
    if (period)
        error = vector_start(&samples, period);
    if (!error)
        work_rounds(rounds);
    if (period && !error)
        vector_stop();
    region_mark(region, false);
    preempt_enable();
    return error;
}

static ssize_t closed_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
    unsigned int region, rounds, period;
    char words[WORDS_MAX];
    int error;

    if (size >= sizeof(words))
        return -EINVAL;
    if (copy_from_user(words, from, size))
        return -EFAULT;
    words[size] = '\0';
    if (sscanf(words, "%u %u %u", &region, &rounds, &period) != 3 || rounds == 0 ||
        period > PERIOD_MAX)
        return -EINVAL;
    mutex_lock(&lock);
    error = run(region, rounds, period);
    mutex_unlock(&lock);
    return error ? error : (ssize_t)size;
}

static int closed_show(struct seq_file *to, void *unused)
{
    const struct work_function *functions;
    unsigned int count = work_functions(&functions);

    for (unsigned int i = 0; i < count; i++)
        seq_printf(to, "function %s %lx %lx\n", functions[i].name, functions[i].start,
                   functions[i].end);
    mutex_lock(&lock);
    seq_printf(to, "dropped %u\n", samples.dropped);
    for (unsigned int i = 0; i < samples.count; i++)
        seq_printf(to, "%lx\n", samples.at[i]);
    mutex_unlock(&lock);
    return 0;
}

static int closed_open(struct inode *inode, struct file *file)
{
    return single_open(file, closed_show, NULL);
}

static const struct proc_ops operations = {
    .proc_open = closed_open,
    .proc_read = seq_read,
    .proc_write = closed_write,
    .proc_lseek = seq_lseek,
    .proc_release = single_release,
};

static int __init closed_init(void)
{
    return proc_create("closed", 0600, NULL, &operations) ? 0 : -ENOMEM;
}

static void __exit closed_exit(void) { remove_proc_entry("closed", NULL); }

module_init(closed_init);
module_exit(closed_exit);

MODULE_DESCRIPTION("A load with interrupts off, and a sampler by a vector");
MODULE_LICENSE("Dual BSD/GPL");
