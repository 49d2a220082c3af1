// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * branchtrace: every taken branch of one thread between two ioctls, by reading the last branch
 * records at a PMI every few branches. Owns the processor's general counters, by the kernel's own
 * reservation, and with them the branch records: perf cannot count while a trace is set up, and a
 * trace cannot be set up while perf counts. pmu.c programs the hardware.
 *
 * /dev/branchtrace: SETUP makes the buffer and takes the counters, mmap() shows the buffer, START
 * and STOP bound the stretch, RESULT counts. One open file traces one thread, on the processor that
 * the thread is bound to. While the thread is off its processor nothing is recorded. Linux,
 * include/linux/preempt.h, "preempt_notifier".
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "branchtrace.h"

#define IRET_BYTES 0xcf48 /* REX.W IRET, as it lies in memory. SDM Vol. 2, "IRET/IRETD/IRETQ". */

struct tracer {
    struct trace trace;
    struct preempt_notifier notifier;
    struct task_struct *thread; /* NULL: not between START and STOP */
    struct file *file;          /* held while there is a thread */
    bool left;                  /* by a thread that ended without STOP: the file is to be put */
};

static DEFINE_MUTEX(lock);
static struct tracer *owner; /* of the counters */

static void sched_in(struct preempt_notifier *notifier, int cpu)
{
    struct tracer *tracer = container_of(notifier, struct tracer, notifier);
    unsigned long flags;

    /* Elsewhere nothing can be recorded: the trace is cut off, and says so. */
    if (cpu != tracer->trace.cpu) {
        tracer->trace.cut = BRANCHTRACE_CUT_MOVED;
        return;
    }
    local_irq_save(flags);
    pmu_resume(&tracer->trace);
    local_irq_restore(flags);
}

static void sched_out(struct preempt_notifier *notifier, struct task_struct *next)
{
    struct tracer *tracer = container_of(notifier, struct tracer, notifier);
    unsigned long flags;

    local_irq_save(flags);
    if (tracer->trace.active)
        pmu_pause(&tracer->trace);
    /* Its last turn, after its files' end: another thread has the device, too. The list that the
     * notifier is in ends with the thread. */
    if (READ_ONCE(current->__state) == TASK_DEAD) {
        pmu_stop(&tracer->trace);
        WRITE_ONCE(tracer->left, true);
        WRITE_ONCE(tracer->thread, NULL);
    }
    local_irq_restore(flags);
}

static struct preempt_ops preempt_ops = {.sched_in = sched_in, .sched_out = sched_out};

static long setup(struct tracer *tracer, const void __user *from)
{
    struct branchtrace_setup wanted;
    size_t records, readouts;
    long error;

    if (copy_from_user(&wanted, from, sizeof(wanted)))
        return -EFAULT;
    if (!(wanted.flags & (BRANCHTRACE_USER | BRANCHTRACE_KERNEL)) || wanted.period == 0 ||
        wanted.period > BRANCHTRACE_PERIOD_MAX || wanted.records == 0 ||
        wanted.records > BRANCHTRACE_RECORDS_MAX || wanted.readouts == 0 ||
        wanted.readouts > BRANCHTRACE_RECORDS_MAX ||
        /* A PMI comes between any two of the kernel's branches: its far ones tell where. */
        (wanted.flags & BRANCHTRACE_KERNEL && !(wanted.flags & BRANCHTRACE_FAR)))
        return -EINVAL;
    records = PAGE_ALIGN(wanted.records * sizeof(struct branchtrace_record));
    readouts = PAGE_ALIGN(wanted.readouts * sizeof(struct branchtrace_readout));
    mutex_lock(&lock);
    /* The buffer may be mapped: its size is decided once. */
    if (tracer->thread ||
        (owner && (owner != tracer || records + readouts != tracer->trace.bytes))) {
        mutex_unlock(&lock);
        return -EBUSY;
    }
    if (!owner) {
        void *buffer = vmalloc_user(records + readouts);

        error = buffer ? pmu_reserve() : -ENOMEM;
        if (error) {
            vfree(buffer);
            mutex_unlock(&lock);
            return error;
        }
        tracer->trace.records = buffer;
        tracer->trace.bytes = records + readouts;
        owner = tracer;
    }
    tracer->trace.readouts = (void *)((char *)tracer->trace.records + records);
    tracer->trace.setup = wanted;
    mutex_unlock(&lock);
    return 0;
}

static long start(struct tracer *tracer, struct file *file)
{
    unsigned long flags;
    bool free;

    mutex_lock(&lock);
    free = owner == tracer && !tracer->thread && current->nr_cpus_allowed == 1;
    if (free) {
        tracer->thread = current;
        tracer->file = get_file(file);
    }
    mutex_unlock(&lock);
    if (!free)
        return -EINVAL;
    preempt_notifier_init(&tracer->notifier, &preempt_ops);
    preempt_disable();
    preempt_notifier_register(&tracer->notifier);
    local_irq_save(flags);
    pmu_start(&tracer->trace);
    local_irq_restore(flags);
    preempt_enable();
    return 0;
}

static long stop(struct tracer *tracer)
{
    unsigned long flags;

    if (tracer->thread != current)
        return -EINVAL;
    preempt_disable();
    local_irq_save(flags);
    pmu_stop(&tracer->trace);
    local_irq_restore(flags);
    preempt_notifier_unregister(&tracer->notifier);
    preempt_enable();
    WRITE_ONCE(tracer->thread, NULL);
    fput(tracer->file);
    return 0;
}

/* Marks the kernel's IRETs: by them the tool knows where a PMI's own way back ends. */
static void mark_irets(struct trace *t)
{
    u32 i;

    for (i = 0; i < t->used; i++) {
        u16 bytes;
        void *from = (void *)t->records[i].from;

        if ((long)t->records[i].from < 0 &&
            !copy_from_kernel_nofault(&bytes, from, sizeof(bytes)) && bytes == IRET_BYTES)
            t->records[i].info |= BRANCHTRACE_IRET;
        cond_resched();
    }
}

static long result(struct tracer *tracer, void __user *to)
{
    struct trace *t = &tracer->trace;
    struct branchtrace_result values;

    mutex_lock(&lock);
    if (owner != tracer || tracer->thread) {
        mutex_unlock(&lock);
        return -EINVAL;
    }
    mark_irets(t);
    values = (struct branchtrace_result){
        .near_taken = t->near_taken,
        .inserts = t->inserts,
        .records = t->used,
        .readouts = t->readouts_used,
        .pmis = t->pmis,
        .cut = t->cut,
        .readout_offset = (char *)t->readouts - (char *)t->records,
    };
    mutex_unlock(&lock);
    return copy_to_user(to, &values, sizeof(values)) ? -EFAULT : 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
    struct tracer *tracer = file->private_data;

    if (xchg(&tracer->left, false))
        fput(tracer->file);
    switch (command) {
    case BRANCHTRACE_START:
        return start(tracer, file);
    case BRANCHTRACE_STOP:
        return stop(tracer);
    case BRANCHTRACE_SETUP:
        return setup(tracer, (const void __user *)argument);
    case BRANCHTRACE_RESULT:
        return result(tracer, (void __user *)argument);
    }
    return -ENOTTY;
}

static int device_mmap(struct file *file, struct vm_area_struct *area)
{
    struct tracer *tracer = file->private_data;

    return owner == tracer ? remap_vmalloc_range(area, tracer->trace.records, 0) : -EINVAL;
}

static int device_open(struct inode *inode, struct file *file)
{
    file->private_data = kzalloc(sizeof(struct tracer), GFP_KERNEL);
    return file->private_data ? 0 : -ENOMEM;
}

/* The thread's exit closes its files: what it has left on ends here, unless another thread has
 * them, too (sched_out). Until then START's own reference keeps the notifier, which is in a list of
 * the thread's. */
static int device_flush(struct file *file, fl_owner_t id)
{
    struct tracer *tracer = file->private_data;

    if (tracer->thread == current)
        stop(tracer);
    return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
    struct tracer *tracer = file->private_data;

    mutex_lock(&lock);
    if (owner == tracer) {
        pmu_release();
        vfree(tracer->trace.records);
        owner = NULL;
    }
    mutex_unlock(&lock);
    kfree(tracer);
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .flush = device_flush,
    .release = device_release,
    .unlocked_ioctl = device_ioctl,
    .mmap = device_mmap,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "branchtrace",
    .fops = &operations,
    .mode = 0600,
};

static int __init branchtrace_init(void)
{
    int error = pmu_check();

    if (error)
        return error;
    preempt_notifier_inc();
    error = misc_register(&device);
    if (error)
        preempt_notifier_dec();
    return error;
}

static void __exit branchtrace_exit(void)
{
    misc_deregister(&device);
    preempt_notifier_dec();
}

module_init(branchtrace_init);
module_exit(branchtrace_exit);

MODULE_DESCRIPTION("Complete lists of taken branches");
MODULE_LICENSE("Dual BSD/GPL");
