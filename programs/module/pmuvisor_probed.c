// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * pmuvisor_probed: a CPUID that a kprobe may be set on. The kernel's own CPUID, in native_cpuid(),
 * lies in a function that Linux does not trace. Writing "LEAF SUBLEAF" to the parameter cpuid
 * executes CPUID, and reading gives EAX, EBX, ECX and EDX. The parameter offset is the place of
 * CPUID in execute_cpuid().
 * Linux, Documentation/trace/kprobetrace.rst; SDM Vol. 2, "CPUID".
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static unsigned int registers[4];

static noinline __noclone void execute_cpuid(unsigned int leaf, unsigned int subleaf)
{
    asm volatile("cpuid\n\tnop"
                 : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
                 : "a"(leaf), "c"(subleaf));
}

static int cpuid_set(const char *value, const struct kernel_param *parameter)
{
    unsigned int leaf, subleaf;

    if (value == NULL || sscanf(value, "%x %x", &leaf, &subleaf) != 2)
        return -EINVAL;
    execute_cpuid(leaf, subleaf);
    return 0;
}

static int cpuid_get(char *buffer, const struct kernel_param *parameter)
{
    return sysfs_emit(buffer, "%x %x %x %x\n", registers[0], registers[1], registers[2],
                      registers[3]);
}

static const struct kernel_param_ops cpuid_ops = {.set = cpuid_set, .get = cpuid_get};

module_param_cb(cpuid, &cpuid_ops, NULL, 0600);
MODULE_PARM_DESC(cpuid, "leaf and subleaf to execute CPUID with; the four registers that it gave");

static int offset_get(char *buffer, const struct kernel_param *parameter)
{
    const unsigned char *code = (const unsigned char *)execute_cpuid;
    unsigned int at = 0;

    while (code[at] != 0x0f || code[at + 1] != 0xa2)
        at++;
    return sysfs_emit(buffer, "%u\n", at);
}

static const struct kernel_param_ops offset_ops = {.get = offset_get};

module_param_cb(offset, &offset_ops, NULL, 0400);
MODULE_PARM_DESC(offset, "how far CPUID is behind the beginning of execute_cpuid()");

MODULE_DESCRIPTION("A CPUID for kprobes");
MODULE_LICENSE("Dual BSD/GPL");
