/* SPDX-License-Identifier: BSD-2-Clause
 * hyper.c: what the guest's programs know of PMUvisor: its CPUID leaves and, through the kernel
 * module, its log. VMCALL is executed only under PMUvisor: natively it is an invalid opcode.
 * SDM Vol. 3, "VMCALL - Call to VM Monitor"; numbers and results in include/hypercall.h.
 */
#include "hypercall.h"
#include "options.h"
#include "payload.h"

#include <stdio.h>
#include <string.h>

bool hyper_present(void)
{
    struct cpuid_regs r = cpuid(CPUID_HV_SIGNATURE, 0);

    return r.ebx == PMUVISOR_SIGNATURE_EBX && r.ecx == PMUVISOR_SIGNATURE_ECX &&
           r.edx == PMUVISOR_SIGNATURE_EDX && r.eax >= CPUID_HV_FEATURES;
}

const char *hyper_policy(void)
{
    static const char *const names[] = {
        [POLICY_MSR_NMI] = "msr+nmi",
        [POLICY_MSR] = "msr",
        [POLICY_INTERCEPT] = "intercept",
    };
    uint32_t policy = cpuid(CPUID_HV_FEATURES, 0).ebx;

    if (policy >= sizeof(names) / sizeof(names[0]) || names[policy] == NULL)
        return "unknown";
    return names[policy];
}

/* The kernel module reads the log by hypercall; this prints what it found. */
JOB(log)
{
    char *text;
    long refused;
    int error, lines = 0;

    if (!hyper_present()) {
        printf("log: not running under PMUvisor\n");
        return 0;
    }
    /* Hypercalls are the kernel's: from user space each one is refused, whatever its number. */
    refused = hyper_call(HYPERCALL_LOG);
    error = load_module("pmuvisor");
    text = read_text("/proc/pmuvisor_log");
    for (char *line; (line = next_word(&text, "\n")) != NULL;) {
        printf("log: %s\n", line);
        lines++;
    }
    printf("log: lines=%d module=%d user=%ld\n", lines, error, refused);
    text = read_text("/proc/pmuvisor_exits");
    for (char *line; (line = next_word(&text, "\n")) != NULL;)
        printf("exits: %s\n", line);
    return lines == 0 || refused != HYPERCALL_E_PERMISSION;
}
