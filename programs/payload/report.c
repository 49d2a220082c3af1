/* SPDX-License-Identifier: BSD-2-Clause
 * report.c: the jobs that look and tell: the guest's report, CPUID, the kernel log, interrupts.
 * SDM Vol. 2, "CPUID", leaves 1, 0AH and the hypervisor's leaves.
 */
#include "hypercall.h"
#include "payload.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CPUID_FEATURES 1u
#define CPUID_1_ECX_VMX (1u << 5)
#define CPUID_1_ECX_HYPERVISOR (1u << 31)
#define CPUID_PERFMON 0xau
#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"

JOB(report)
{
    struct utsname name;

    uname(&name);
    printf("\n-- guest's report --\n");
    printf("kernel: %s %s\n", name.sysname, name.release);
    if (hyper_present()) {
        uint32_t version = cpuid(CPUID_HV_FEATURES, 0).eax;

        printf("running under PMUvisor, policy %s (version %u.%u.%u)\n", hyper_policy(),
               version >> 16, version >> 8 & 0xff, version & 0xff);
    } else {
        printf("running natively\n");
    }
    if (!a1_print_table())
        printf("A.1: not run\n");
    printf("-- end of report --\n\n");
    return 0;
}

/* What the kernel does at each entry and exit depends on these: guest and native must agree. */
void print_mitigations(void)
{
    DIR *folder = opendir(VULNERABILITIES);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[sizeof(VULNERABILITIES) + sizeof(entry->d_name) + 1];
        char *text;

        snprintf(path, sizeof(path), VULNERABILITIES "/%s", entry->d_name);
        text = entry->d_name[0] == '.' ? NULL : read_text(path);
        if (text != NULL)
            printf("mitigation: %s: %s", entry->d_name, text);
    }
    if (folder != NULL)
        closedir(folder);
}

JOB(cpuinfo)
{
    static const char *const words[] = {
        "Performance Events",    "PMU driver",
        "... version",           "... bit width",
        "... generic registers", "... fixed-purpose events",
        "NMI watchdog",          "... max period",
        "... event mask",        "clocksource:",
        "Hypervisor detected",   "TSC deadline",
        "unchecked MSR",
    };
    struct cpuid_regs features = cpuid(CPUID_FEATURES, 0);
    struct cpuid_regs perfmon = cpuid(CPUID_PERFMON, 0);
    char signature[13];

    printf("cpuinfo: vmx=%d hypervisor=%d pmuvisor=%d cpus=%ld\n",
           (features.ecx & CPUID_1_ECX_VMX) != 0, (features.ecx & CPUID_1_ECX_HYPERVISOR) != 0,
           hyper_present(), sysconf(_SC_NPROCESSORS_ONLN));
    printf("cpuinfo: perfmon_eax=%#x perfmon_ebx=%#x perfmon_edx=%#x\n", perfmon.eax, perfmon.ebx,
           perfmon.edx);
    if (hyper_present() || (features.ecx & CPUID_1_ECX_HYPERVISOR) != 0) {
        struct cpuid_regs r = cpuid(CPUID_HV_SIGNATURE, 0);

        memcpy(signature, &r.ebx, 4);
        memcpy(signature + 4, &r.ecx, 4);
        memcpy(signature + 8, &r.edx, 4);
        signature[12] = '\0';
        printf("cpuinfo: signature=%s max_leaf=%#x\n", signature, r.eax);
        r = cpuid(CPUID_HV_FEATURES, 0);
        printf("cpuinfo: version=%#x policy=%u hypercalls=%#x edx=%#x\n", r.eax, r.ebx, r.ecx,
               r.edx);
    }
    print_kernel_log("dmesg", words, sizeof(words) / sizeof(words[0]));
    print_mitigations();
    return 0;
}

/* A region of nothing but CPUID: its ledger entry prices the exit. */
JOB(cpuid)
{
    region_begin(REGION_CPUID);
    for (int i = 0; i < CPUID_ROUNDS; i++)
        cpuid(0, 0);
    region_end(REGION_CPUID);
    printf("cpuid: region=%d rounds=%d\n", REGION_CPUID, CPUID_ROUNDS);
    return 0;
}

JOB(interrupts)
{
    long long nmis = interrupt_count("NMI");
    long long pmis = interrupt_count("PMI");

    printf("interrupts: nmi=%lld pmi=%lld\n", nmis, pmis);
    return nmis < 0 || pmis < 0;
}

JOB(watchdog)
{
    static const char *const words[] = {"NMI watchdog", "nmi_watchdog"};
    char *text = read_text("/proc/sys/kernel/nmi_watchdog");
    int enabled = text != NULL && text[0] == '1';

    printf("watchdog: enabled=%d\n", enabled);
    print_kernel_log("dmesg", words, sizeof(words) / sizeof(words[0]));
    return !enabled;
}

/* All of it, for a comparison line by line. */
JOB(kernellog)
{
    static const char *const words[] = {""};

    return print_kernel_log("kernellog", words, 1) == 0;
}

JOB(nmilog)
{
    static const char *const words[] = {"Uhhuh",         "unknown reason", "Dazed and confused",
                                        "took too long", "LOCKUP",         "lockup"};

    printf("nmilog: lines=%d\n",
           print_kernel_log("nmilog", words, sizeof(words) / sizeof(words[0])));
    return 0;
}
