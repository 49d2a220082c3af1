// SPDX-License-Identifier: BSD-2-Clause
/*
 * measure_linux.c: the measurements of programs/measure/ inside Linux, for machines whose serial
 * line nobody reads: the module pmuvisor_measure. "EXPERIMENT [RUNS [OPERATIONS]]" written to
 * /proc/pmuvisor_measure runs one, on the processor that writes, with interrupts off but for a
 * moment between two items; reading gives its lines. Meanwhile NMIs go to an IDT of its own, a copy
 * of Linux's with one gate changed, which works with and without page table isolation and branch
 * tracking, because all of it happens at CPL 0. Wants the performance counters unused: no perf
 * event, no NMI watchdog.
 * SDM Vol. 3, "Interrupt Descriptor Table (IDT)", "64-Bit Mode IDT"; ACPI, "PM1 Control Registers".
 */
#include <linux/acpi.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/nmi.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/apicdef.h>
#include <asm/desc.h>
#include <asm/msr.h>
#include <asm/processor.h>
#include <asm/trapnr.h>

#include "measure.h"

#define NAME "pmuvisor_measure"
#define OUTPUT_BYTES 65536
#define REQUEST_BYTES 64
#define EVENTSEL_EN (1u << 22)
#define CR4_FRED_BIT 32 /* the IDT is not used then; older kernels have no name for it */
#define APIC_BASE_EXTD (1u << 10)
#define LEAF_PMU 0x0a
#define VERSION_FIXED 2 /* the first with IA32_FIXED_CTR_CTRL */
#define IN_USE_TEXT "wanted it free; stop perf and write 0 to /proc/sys/kernel/nmi_watchdog"

static DEFINE_MUTEX(one_at_a_time);
static char *output;
static size_t used;
static gate_desc *own_table; /* a page, which is what 256 gates take */
static struct desc_ptr linux_idt;

static __printf(1, 2) void print(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    used += vscnprintf(output + used, OUTPUT_BYTES - used, format, arguments);
    va_end(arguments);
}

static void load(const struct desc_ptr *table)
{
    asm volatile("lidt %0" : : "m"(*table) : "memory");
}

/* Linux's gate stays as it is but for the address: same stack (IST), same type. */
static void nmi_entry(const void *entry)
{
    const struct desc_ptr own = {.size = linux_idt.size, .address = (unsigned long)own_table};
    gate_desc *gate = &own_table[X86_TRAP_NMI];
    unsigned long address = (unsigned long)entry;

    if (entry == NULL) {
        load(&linux_idt);
        return;
    }
    gate->offset_low = (u16)address;
    gate->offset_middle = (u16)(address >> 16);
    gate->offset_high = (u32)(address >> 32);
    load(&own);
}

/* The I/O port of the PM1a control register; 0: the machine has none. */
static u16 pm1a_control(void)
{
    struct acpi_table_header *table;
    u16 port = 0;

    if (ACPI_FAILURE(acpi_get_table(ACPI_SIG_FADT, 1, &table)))
        return 0;
    if (!(((struct acpi_table_fadt *)table)->flags & ACPI_FADT_HW_REDUCED))
        port = (u16)((struct acpi_table_fadt *)table)->pm1a_control_block;
    acpi_put_table(table);
    return port;
}

static bool is_set(u32 msr, u64 bits)
{
    u64 value = 0;

    return !rdmsrl_safe(msr, &value) && value & bits;
}

/* NULL when nobody else uses this processor's PMU; else what does. Interrupts are off: it stays so
 * until they are on again. SDM Vol. 3, "Architectural Performance Monitoring". */
static const char *pmu_in_use(void)
{
    unsigned int eax = 0, ebx, ecx, edx;

    if (boot_cpu_data.cpuid_level >= LEAF_PMU)
        cpuid(LEAF_PMU, &eax, &ebx, &ecx, &edx);
    for (unsigned int i = 0; i < (eax >> 8 & 0xff); i++)
        if (is_set(MSR_P6_EVNTSEL0 + i, EVENTSEL_EN))
            return "found a general counter in use, " IN_USE_TEXT;
    if ((eax & 0xff) >= VERSION_FIXED && is_set(MSR_CORE_PERF_FIXED_CTR_CTRL, ~0ull))
        return "found a fixed counter in use, " IN_USE_TEXT;
    if (boot_cpu_has(X86_FEATURE_PEBS) && is_set(MSR_IA32_PEBS_ENABLE, ~0ull))
        return "found PEBS in use, " IN_USE_TEXT;
    return NULL;
}

/* With interrupts off to begin with, and at the end. */
static const char *between(void)
{
    local_irq_enable();
    touch_nmi_watchdog();
    cond_resched();
    local_irq_disable();
    return pmu_in_use();
}

static const char *run_here(const struct measure_environment *e, const char *experiment,
                            bool *known)
{
    const char *trouble;

    /* On one processor, though others may run here between two items. */
    migrate_disable();
    local_irq_disable();
    trouble = pmu_in_use();
    if (trouble == NULL) {
        store_idt(&linux_idt);
        memcpy(own_table, (const void *)linux_idt.address, linux_idt.size + 1);
        *known = measure_run(e, experiment);
    }
    local_irq_enable();
    migrate_enable();
    touch_nmi_watchdog();
    return trouble;
}

/* NULL: it has run, or it is not `known`; else what is in the way. */
static const char *run(const char *experiment, unsigned int runs, unsigned int operations,
                       bool *known)
{
    struct measure_environment e = {
        .print = print,
        .nmi_entry = nmi_entry,
        .between = between,
        .runs = runs,
        .operations = operations,
    };
    void __iomem *apic = NULL;
    const char *trouble;
    u64 base;

    if (__read_cr4() >> CR4_FRED_BIT & 1)
        return "found FRED on, wanted events through the IDT; boot with fred=off";
    rdmsrl(MSR_IA32_APICBASE, base);
    if (!(base & APIC_BASE_EXTD)) {
        apic = ioremap(base & PAGE_MASK & ((1ull << boot_cpu_data.x86_phys_bits) - 1), PAGE_SIZE);
        if (apic == NULL)
            return "the local APIC's registers cannot be mapped";
        e.apic = (volatile void __force *)apic;
    }
    measure_platform(&e, pm1a_control());
    trouble = run_here(&e, experiment, known);
    if (apic != NULL)
        iounmap(apic);
    if (trouble == NULL && *known)
        print("measure: experiment=%s failures=%lu stray_nmis=%lu\n", experiment,
              (unsigned long)measure_failures(), (unsigned long)measure_stray_nmis());
    return trouble;
}

static ssize_t request(struct file *file, const char __user *from, size_t size, loff_t *position)
{
    char text[REQUEST_BYTES], experiment[REQUEST_BYTES];
    unsigned int runs = 0, operations = 0;
    bool known = false;
    const char *trouble;
    ssize_t result = (ssize_t)size;

    if (size >= sizeof(text))
        return -EINVAL;
    if (copy_from_user(text, from, size))
        return -EFAULT;
    text[size] = '\0';
    if (sscanf(text, "%63s %u %u", experiment, &runs, &operations) < 1)
        return -EINVAL;
    mutex_lock(&one_at_a_time);
    used = 0;
    trouble = run(experiment, runs, operations, &known);
    if (trouble != NULL) {
        print("measure: error=\"%s\"\n", trouble);
        result = -EBUSY;
    } else if (!known) {
        print("measure: error=\"no experiment %s, wanted msr, exit, pmi or a1k\"\n", experiment);
        result = -EINVAL;
    }
    mutex_unlock(&one_at_a_time);
    return result;
}

static int show(struct seq_file *file, void *unused)
{
    mutex_lock(&one_at_a_time);
    seq_write(file, output, used);
    mutex_unlock(&one_at_a_time);
    return 0;
}

static int open(struct inode *inode, struct file *file) { return single_open(file, show, NULL); }

static const struct proc_ops operations = {
    .proc_open = open,
    .proc_read = seq_read,
    .proc_lseek = seq_lseek,
    .proc_release = single_release,
    .proc_write = request,
};

static void release(void)
{
    vfree(output);
    free_page((unsigned long)own_table);
}

static int __init measure_init(void)
{
    output = vmalloc(OUTPUT_BYTES);
    own_table = (gate_desc *)__get_free_page(GFP_KERNEL | __GFP_ZERO);
    if (output == NULL || own_table == NULL || proc_create(NAME, 0600, NULL, &operations) == NULL) {
        release();
        return -ENOMEM;
    }
    return 0;
}

static void __exit measure_exit_module(void)
{
    remove_proc_entry(NAME, NULL);
    release();
}

module_init(measure_init);
module_exit(measure_exit_module);

MODULE_DESCRIPTION("PMUvisor's measurements at CPL 0");
MODULE_LICENSE("Dual BSD/GPL");
