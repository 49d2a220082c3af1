// SPDX-License-Identifier: BSD-2-Clause
/*
 * measure_linux.c: the measurements of guest/measure/ inside Linux, for machines whose serial line
 * nobody reads: the module pmuvisor_measure. "EXPERIMENT [RUNS [OPERATIONS]]" written to
 * /proc/pmuvisor_measure runs one, with interrupts off and on the processor that writes; reading
 * gives its lines. Meanwhile NMIs go to an IDT of its own, a copy of Linux's with one gate changed,
 * which works with and without page table isolation and branch tracking, because all of it happens
 * at CPL 0. Wants the performance counters unused: no perf event, no NMI watchdog.
 * SDM Vol. 3, "Interrupt Descriptor Table (IDT)", "64-Bit Mode IDT"; ACPI, "PM1 Control Registers".
 */
#include <linux/acpi.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/nmi.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/apicdef.h>
#include <asm/desc.h>
#include <asm/msr.h>
#include <asm/processor.h>
#include <asm/trapnr.h>

#include "hypercall.h"
#include "measure/measure.h"

#define NAME "pmuvisor_measure"
#define OUTPUT_BYTES 65536
#define REQUEST_BYTES 64
#define KVM_SIGNATURE_EBX 0x4b4d564bu /* "KVMK" */
#define EVENTSEL_EN (1u << 22)
#define CR4_FRED_BIT 32 /* the IDT is not used then; older kernels have no name for it */
#define APIC_BASE_EXTD (1u << 10)
#define PM1_BYTES 2
#define ELCR_BYTES 1

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

static enum measure_hypervisor hypervisor(void)
{
    unsigned int last, ebx, ecx, edx;

    if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
        return MEASURE_NATIVE;
    cpuid(CPUID_HV_SIGNATURE, &last, &ebx, &ecx, &edx);
    if (ebx == PMUVISOR_SIGNATURE_EBX && ecx == PMUVISOR_SIGNATURE_ECX &&
        edx == PMUVISOR_SIGNATURE_EDX)
        return MEASURE_PMUVISOR;
    return ebx == KVM_SIGNATURE_EBX ? MEASURE_KVM : MEASURE_OTHER;
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

/* NULL when this machine and its state now allow the measurement; else what is in the way. */
static const char *in_the_way(void)
{
    u64 selector = 0;

    if (__read_cr4() >> CR4_FRED_BIT & 1)
        return "found FRED on, wanted events through the IDT; boot with fred=off";
    if (!rdmsrl_safe(MSR_P6_EVNTSEL0, &selector) && selector & EVENTSEL_EN)
        return "found counter 0 in use, wanted it free; stop perf and write 0 to "
               "/proc/sys/kernel/nmi_watchdog";
    return NULL;
}

static bool run(const char *experiment, unsigned int runs, unsigned int operations)
{
    struct measure_environment e = {
        .print = print,
        .nmi_entry = nmi_entry,
        .hypervisor = hypervisor(),
        .runs = runs,
        .operations = operations,
    };
    void __iomem *apic = NULL;
    unsigned long flags;
    u64 base;
    bool known;

    rdmsrl(MSR_IA32_APICBASE, base);
    if (!(base & APIC_BASE_EXTD)) {
        apic = ioremap(base & PAGE_MASK & ((1ull << boot_cpu_data.x86_phys_bits) - 1), PAGE_SIZE);
        if (apic == NULL) {
            print("measure: error=\"the local APIC's registers cannot be mapped\"\n");
            return true;
        }
        e.apic = (volatile void __force *)apic;
    }
    if (e.hypervisor == MEASURE_KVM) {
        e.trapped_port = MEASURE_KVM_PORT;
        e.trapped_bytes = ELCR_BYTES;
    } else if (pm1a_control() != 0) {
        e.trapped_port = pm1a_control();
        e.trapped_bytes = PM1_BYTES;
        e.trapped_clear = MEASURE_PM1_CLEAR;
    }

    local_irq_save(flags);
    store_idt(&linux_idt);
    memcpy(own_table, (const void *)linux_idt.address, linux_idt.size + 1);
    known = measure_run(&e, experiment);
    local_irq_restore(flags);
    touch_nmi_watchdog();

    if (apic != NULL)
        iounmap(apic);
    if (known)
        print("measure: experiment=%s failures=%lu stray_nmis=%lu\n", experiment,
              (unsigned long)measure_failures(), (unsigned long)measure_stray_nmis());
    return known;
}

static ssize_t request(struct file *file, const char __user *from, size_t size, loff_t *position)
{
    char text[REQUEST_BYTES], experiment[REQUEST_BYTES];
    unsigned int runs = 0, operations = 0;
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
    trouble = in_the_way();
    if (trouble != NULL) {
        print("measure: error=\"%s\"\n", trouble);
        result = -EBUSY;
    } else if (!run(experiment, runs, operations)) {
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

static int open(struct inode *inode, struct file *file)
{
    return single_open(file, show, NULL);
}

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
    if (output == NULL || own_table == NULL ||
        proc_create(NAME, 0600, NULL, &operations) == NULL) {
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
