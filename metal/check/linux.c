/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads the machine under a running Linux. What the kernel has changed since firmware, it said in
 * its log. (Linux, Documentation/ABI: sysfs-firmware-memmap, sysfs-firmware-acpi, and
 * sysfs-class-iommu-intel-iommu; msr(4).)
 */
#define _GNU_SOURCE
#include "metal/check/machine.h"

#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bits.h"
#include "msr.h"
#include "metal/check/linux_files.h"

#define CPUS_MAX 8192
#define SUBLEAVES_MAX 64
#define SYSLOG_READ_ALL 3 /* syslog(2) */
#define SYSLOG_SIZE 10
#define TSC_LINE "tsc: Detected "

static bool fail(char why[WHY_MAX], const char *what, const char *name, const char *action)
{
    snprintf(why, WHY_MAX, "%s%s%s%s; %s", what, name, errno != 0 ? ": " : "",
             errno != 0 ? strerror(errno) : "", action);
    return false;
}

/* ---- processors ---- */

/* A list like 0-3,8: gives how many, and the first `room` of them. */
static size_t cpu_list(const char *path, unsigned *out, size_t room)
{
    char *text = file_text(path, NULL);
    size_t count = 0;

    for (char *at = text; at != NULL && *at >= '0' && *at <= '9';) {
        unsigned long first = strtoul(at, &at, 10), last = first;
        if (*at == '-')
            last = strtoul(at + 1, &at, 10);
        for (; first <= last && first < CPUS_MAX; first++, count++)
            if (count < room)
                out[count] = (unsigned)first;
        at += *at == ',';
    }
    free(text);
    return count;
}

static bool run_on(unsigned cpu)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    bool done = false;

    if (set != NULL) {
        CPU_ZERO_S(size, set);
        CPU_SET_S(cpu, size, set);
        done = sched_setaffinity(0, size, set) == 0;
        CPU_FREE(set);
    }
    return done;
}

static void read_leaves(struct processor *p, uint32_t first)
{
    uint32_t last = first;

    for (uint32_t leaf = first; leaf <= last && leaf - first < 0x100; leaf++)
        for (uint32_t subleaf = 0; subleaf < SUBLEAVES_MAX; subleaf++) {
            struct cpuid_line c = {.leaf = leaf, .subleaf = subleaf};

            __cpuid_count(leaf, subleaf, c.eax, c.ebx, c.ecx, c.edx);
            if (leaf == first && subleaf == 0 && (c.eax < first || c.eax - first > 0x100))
                return; /* no such leaves */
            if (leaf == first && subleaf == 0)
                last = c.eax;
            const struct cpuid_line *before = subleaf > 0 ? &p->cpuid[p->cpuid_count - 1] : NULL;
            /* The end: zeros, or a leaf that has no subleaves and gives the same again. */
            if (before != NULL && ((c.eax | c.ebx | c.ecx | c.edx) == 0 ||
                                   (c.eax == before->eax && c.ebx == before->ebx &&
                                    c.ecx == before->ecx && c.edx == before->edx)))
                break;
            ADD(p->cpuid, p->cpuid_count) = c;
            if (first != 0) /* only basic leaves have some that matter */
                break;
        }
}

/* What the image reads, and what tells a reader of a dump about the machine. */
static const struct {
    uint32_t first, last;
} msrs[] = {
    {IA32_APIC_BASE, IA32_APIC_BASE},
    {IA32_FEATURE_CONTROL, IA32_FEATURE_CONTROL},
    {IA32_BIOS_SIGN_ID, IA32_BIOS_SIGN_ID},
    {IA32_XAPIC_DISABLE_STATUS, IA32_XAPIC_DISABLE_STATUS},
    {MSR_PKG_CST_CONFIG_CONTROL, MSR_PKG_CST_CONFIG_CONTROL},
    {MSR_PMG_IO_CAPTURE_BASE, MSR_PMG_IO_CAPTURE_BASE},
    {IA32_MTRRCAP, IA32_MTRRCAP},
    {IA32_ARCH_CAPABILITIES, IA32_ARCH_CAPABILITIES},
    {IA32_MCG_CAP, IA32_MCG_CAP},
    {IA32_MISC_ENABLE, IA32_MISC_ENABLE},
    {IA32_MTRR_PHYSBASE0, IA32_MTRR_PHYSBASE0 + 63},
    {IA32_MTRR_FIX64K_00000, IA32_MTRR_FIX64K_00000},
    {IA32_MTRR_FIX16K_80000, IA32_MTRR_FIX16K_A0000},
    {IA32_MTRR_FIX4K_C0000, IA32_MTRR_FIX4K_F8000},
    {IA32_PAT, IA32_PAT},
    {IA32_MTRR_DEF_TYPE, IA32_MTRR_DEF_TYPE},
    {IA32_PERF_CAPABILITIES, IA32_PERF_CAPABILITIES},
    {IA32_PEBS_ENABLE, IA32_PEBS_ENABLE},
    {IA32_VMX_BASIC, IA32_VMX_EXIT_CTLS2},
    {IA32_RTIT_CTL, IA32_RTIT_CTL},
    {IA32_TME_ACTIVATE, IA32_TME_ACTIVATE},
};

static bool read_msrs(struct processor *p, char why[WHY_MAX])
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/cpu/%" PRIu32 "/msr", p->number);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(why, "cannot open ", path, "load the kernel's module: modprobe msr");
    for (unsigned i = 0; i < LENGTH_OF(msrs); i++)
        for (uint32_t index = msrs[i].first; index <= msrs[i].last; index++) {
            struct msr_line line = {.index = index};

            ssize_t got = pread(file, &line.value, sizeof(line.value), index);
            if (got != sizeof(line.value) && errno != EIO) {
                close(file);
                return fail(why, "cannot read MSRs from ", path, "allow it, as root");
            }
            line.faults = got != sizeof(line.value);
            if (line.faults)
                line.value = 0;
            ADD(p->msr, p->msr_count) = line;
        }
    close(file);
    return true;
}

static bool read_processors(struct machine *m, char why[WHY_MAX])
{
    static unsigned online[CPUS_MAX];
    size_t count = cpu_list("/sys/devices/system/cpu/online", online, CPUS_MAX);
    size_t present = cpu_list("/sys/devices/system/cpu/present", NULL, 0);

    if (count == 0)
        return fail(why, "found no processor in /sys/devices/system/cpu/online", "", "mount /sys");
    if (access("/dev/cpu/0/msr", F_OK) != 0)
        run_program("modprobe", "msr");
    m->offline = present > count ? (uint32_t)(present - count) : 0;
    for (size_t i = 0; i < count; i++) {
        struct processor *p = &ADD(m->processors, m->processor_count);

        p->number = online[i];
        if (!run_on(online[i]))
            return fail(why, "cannot run on each processor", "", "try again without taskset");
        read_leaves(p, 0);
        read_leaves(p, 0x40000000);
        read_leaves(p, 0x80000000);
        if (!read_msrs(p, why))
            return false;
    }
    return true;
}

/* ---- the kernel's log ---- */

static unsigned count_of(const char *text, const char *words)
{
    unsigned count = 0;

    for (; (text = strstr(text, words)) != NULL; text++)
        count++;
    return count;
}

/* The lines are Linux's: arch/x86/kernel/apic/apic.c, drivers/iommu/intel/irq_remapping.c, and
 * arch/x86/kernel/smpboot.c before and after 6.5. */
static void read_log(struct machine *m)
{
    int size = klogctl(SYSLOG_SIZE, NULL, 0);
    char *text = size > 0 ? calloc(1, (size_t)size + 1) : NULL;

    if (text == NULL || klogctl(SYSLOG_READ_ALL, text, size) <= 0) {
        free(text);
        return;
    }
    enum known otherwise = strstr(text, "Linux version ") != NULL ? OFF : UNKNOWN; /* its start */
    m->x2apic = strstr(text, "x2apic: enabled by BIOS") != NULL ? ON : otherwise;
    m->remapping = strstr(text, "IRQ remapping was enabled on") != NULL ? ON : otherwise;
    /* They will not come under the image either. */
    unsigned dead = count_of(text, "do_boot_cpu failed(") +
                    count_of(text, "failed to report alive state");
    m->offline -= dead < m->offline ? dead : m->offline;
    /* "of the processor" first, and "TSC" once more where that is better known. */
    double mhz = 0;
    for (char *at = text; (at = strstr(at, TSC_LINE)) != NULL; at += strlen(TSC_LINE))
        mhz = strtod(at + strlen(TSC_LINE), NULL);
    m->tsc_khz = mhz > 0 && mhz < UINT32_MAX / 1000 ? (uint32_t)(mhz * 1000 + 0.5) : 0;
    free(text);
}

/* ---- the rest ---- */

static void read_facts(struct machine *m)
{
    static const struct {
        const char *path, *name;
    } files[] = {{"/sys/class/dmi/id/sys_vendor", "vendor"},
                 {"/sys/class/dmi/id/product_name", "product"},
                 {"/sys/class/dmi/id/bios_version", "firmware"},
                 {"/sys/class/dmi/id/bios_date", "firmware's date"},
                 {"/proc/sys/kernel/osrelease", "kernel"}};

    for (unsigned i = 0; i < LENGTH_OF(files); i++) {
        char *text = file_text(files[i].path, NULL);

        if (text != NULL)
            add_fact(m, "%s: %.*s", files[i].name, (int)strcspn(text, "\n"), text);
        free(text);
    }
    char *serial = file_text("/proc/tty/driver/serial", NULL);
    for (char *at = serial; at != NULL && (at = strstr(at, "uart:")) != NULL; at++)
        if (strncmp(at, "uart:unknown", 12) != 0)
            add_fact(m, "serial: %.*s", (int)strcspn(at, "\n"), at);
    free(serial);
}

bool linux_read(struct machine *m, const char *esp, char why[WHY_MAX])
{
    memset(m, 0, sizeof(*m));
    if (geteuid() != 0) {
        errno = 0;
        return fail(why, "found no right to read MSRs and ACPI tables, wanted root", "",
                    "run it by sudo");
    }
    errno = 0;
    if (!read_processors(m, why))
        return false;
    read_log(m);
    read_memory_map(m);
    read_screen(m);
    read_tables(m);
    read_units(m);
    read_secure_boot(m);
    read_facts(m);
    return read_esp(m, esp, why);
}
