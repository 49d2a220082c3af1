// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * pmuvisor_nmi: hands NMIs that nobody in this kernel knows back to PMUvisor. With NMI passthrough
 * an NMI meant for the hypervisor may be taken by the guest; the hypervisor then learns of it at
 * once instead of after the next VM exit, and the kernel does not report it as unknown. Touches
 * nothing but registers and two counters. SDM Vol. 3, "VMCALL - Call to VM Monitor".
 *
 * Read-only parameters: handed_back (NMIs that were the hypervisor's), not_ours (those that were
 * nobody's and took their usual way).
 */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>

#include <asm/nmi.h>
#include <asm/processor.h>

#include "hypercall.h"

#define HANDLER_NAME "pmuvisor"

static atomic_long_t handed_back = ATOMIC_LONG_INIT(0);
static atomic_long_t not_ours = ATOMIC_LONG_INIT(0);

static int counter_get(char *buffer, const struct kernel_param *parameter)
{
    return sysfs_emit(buffer, "%ld\n", atomic_long_read((atomic_long_t *)parameter->arg));
}

/* The kernel calls it without a check when a value is given at load time. */
static int counter_set(const char *value, const struct kernel_param *parameter) { return -EPERM; }

static const struct kernel_param_ops counter_ops = {.set = counter_set, .get = counter_get};

module_param_cb(handed_back, &counter_ops, &handed_back, 0444);
MODULE_PARM_DESC(handed_back, "unknown NMIs that were the hypervisor's");
module_param_cb(not_ours, &counter_ops, &not_ours, 0444);
MODULE_PARM_DESC(not_ours, "unknown NMIs that were not");

/* How many of the hypervisor's NMI sources had waited; negative: an error of hypercall.h. */
static long hand_back(void)
{
    long result;

    asm volatile("vmcall" : "=a"(result) : "a"((long)HYPERCALL_UNKNOWN_NMI) : "memory");
    return result;
}

static int unknown_nmi(unsigned int type, struct pt_regs *registers)
{
    if (hand_back() <= 0) {
        atomic_long_inc(&not_ours);
        return NMI_DONE;
    }
    atomic_long_inc(&handed_back);
    return NMI_HANDLED;
}

/* 0 when the hypervisor is PMUvisor and takes unknown NMIs back. */
static int check_hypervisor(void)
{
    unsigned int last, ebx, ecx, edx, version, policy, hypercalls, unused;

    cpuid(CPUID_HV_SIGNATURE, &last, &ebx, &ecx, &edx);
    if (ebx != PMUVISOR_SIGNATURE_EBX || ecx != PMUVISOR_SIGNATURE_ECX ||
        edx != PMUVISOR_SIGNATURE_EDX || last < CPUID_HV_FEATURES) {
        pr_err("pmuvisor_nmi: hypervisor signature %08x %08x %08x, wanted %08x %08x %08x; "
               "load it in PMUvisor's guest\n",
               ebx, ecx, edx, PMUVISOR_SIGNATURE_EBX, PMUVISOR_SIGNATURE_ECX,
               PMUVISOR_SIGNATURE_EDX);
        return -ENODEV;
    }
    cpuid(CPUID_HV_FEATURES, &version, &policy, &hypercalls, &unused);
    if (!(hypercalls & 1u << HYPERCALL_UNKNOWN_NMI)) {
        pr_err("pmuvisor_nmi: PMUvisor offers hypercalls %#x, wanted number %d among them; "
               "take module and hypervisor of the same version\n",
               hypercalls, HYPERCALL_UNKNOWN_NMI);
        return -EOPNOTSUPP;
    }
    return 0;
}

static int __init pmuvisor_nmi_init(void)
{
    int error = check_hypervisor();

    if (error)
        return error;
    error = register_nmi_handler(NMI_UNKNOWN, unknown_nmi, 0, HANDLER_NAME);
    if (error)
        pr_err("pmuvisor_nmi: registering for unknown NMIs gave error %d, wanted 0\n", error);
    return error;
}

static void __exit pmuvisor_nmi_exit(void) { unregister_nmi_handler(NMI_UNKNOWN, HANDLER_NAME); }

module_init(pmuvisor_nmi_init);
module_exit(pmuvisor_nmi_exit);

MODULE_DESCRIPTION("Hands unknown NMIs back to PMUvisor");
MODULE_LICENSE("Dual BSD/GPL");
