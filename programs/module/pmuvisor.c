// SPDX-License-Identifier: BSD-2-Clause
/*
 * pmuvisor.c: the guest kernel's side of PMUvisor's hypercalls, which only CPL 0 may use. Gives
 * /proc/pmuvisor_log (the hypervisor's log) and /proc/pmuvisor_exits (exits by reason).
 * SDM Vol. 3, "VMCALL - Call to VM Monitor"; numbers and results in include/hypercall.h.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include <asm/processor.h>

#include "hypercall.h"

#define LOG_NAME "pmuvisor_log"
#define EXITS_NAME "pmuvisor_exits"
#define LOG_BYTES_PER_CALL 32
#define LOG_CALLS_MAX 65536 /* the log may grow while it is read */
#define REASONS 128         /* more than the SDM's Appendix "VMX Basic Exit Reasons" has */

/* One HYPERCALL_LOG: n bytes into text, or a negative error; *position moves on. */
static long log_read(u64 *position, char text[LOG_BYTES_PER_CALL])
{
    u64 words[LOG_BYTES_PER_CALL / sizeof(u64)];
    long result;

    asm volatile("vmcall"
                 : "=a"(result), "+b"(*position), "=c"(words[0]), "=d"(words[1]), "=S"(words[2]),
                   "=D"(words[3])
                 : "a"((long)HYPERCALL_LOG)
                 : "memory");
    memcpy(text, words, sizeof(words));
    return result;
}

static int log_show(struct seq_file *file, void *unused)
{
    char text[LOG_BYTES_PER_CALL];
    u64 position = 0;
    long n = 1;

    for (int call = 0; n > 0 && call < LOG_CALLS_MAX; call++) {
        n = log_read(&position, text);
        if (n < 0 || n > LOG_BYTES_PER_CALL)
            return -EIO;
        seq_write(file, text, n);
    }
    return 0;
}

static int exits_show(struct seq_file *file, void *unused)
{
    for (unsigned long reason = 0; reason < REASONS; reason++) {
        long count;

        asm volatile("vmcall"
                     : "=a"(count)
                     : "a"((long)HYPERCALL_STATISTICS), "b"(reason)
                     : "memory");
        if (count > 0)
            seq_printf(file, "%lu %ld\n", reason, count);
    }
    return 0;
}

static bool under_pmuvisor(void)
{
    u32 eax, ebx, ecx, edx;

    cpuid(CPUID_HV_SIGNATURE, &eax, &ebx, &ecx, &edx);
    return ebx == PMUVISOR_SIGNATURE_EBX && ecx == PMUVISOR_SIGNATURE_ECX &&
           edx == PMUVISOR_SIGNATURE_EDX;
}

static int __init pmuvisor_init(void)
{
    if (!under_pmuvisor())
        return -ENODEV;
    if (!proc_create_single(LOG_NAME, 0400, NULL, log_show))
        return -ENOMEM;
    if (!proc_create_single(EXITS_NAME, 0400, NULL, exits_show)) {
        remove_proc_entry(LOG_NAME, NULL);
        return -ENOMEM;
    }
    return 0;
}

static void __exit pmuvisor_exit(void)
{
    remove_proc_entry(EXITS_NAME, NULL);
    remove_proc_entry(LOG_NAME, NULL);
}

module_init(pmuvisor_init);
module_exit(pmuvisor_exit);
MODULE_DESCRIPTION("PMUvisor's log and exit counts");
/* The kernel knows the 2-clause BSD license only by this name. */
MODULE_LICENSE("Dual BSD/GPL");
