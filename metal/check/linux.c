/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes a dump of the machine under a running Linux. What the kernel has changed since firmware,
 * it said in its log. (Linux, Documentation/ABI: sysfs-firmware-memmap, sysfs-firmware-acpi, and
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
#define TOPOLOGY_LEVEL 0xff00 /* ECX of that leaf: the level's kind; 0: there is none */
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

/* Of the leaves that begin at `first`. */
static void write_leaves(FILE *out, uint32_t first)
{
    uint32_t last = __get_cpuid_max(first, NULL);

    for (uint32_t leaf = first; leaf <= last && leaf - first < 0x100; leaf++) {
        uint32_t now[4], before[4] = {0};

        for (uint32_t subleaf = 0; subleaf < SUBLEAVES_MAX; subleaf++) {
            __cpuid_count(leaf, subleaf, now[0], now[1], now[2], now[3]);
            /* The end: zeros, no further level, or a leaf without subleaves gives the same again.
             */
            if (subleaf > 0 && ((now[0] | now[1] | now[2] | now[3]) == 0 ||
                                (leaf == LEAF_TOPOLOGY && (now[2] & TOPOLOGY_LEVEL) == 0) ||
                                memcmp(now, before, sizeof(now)) == 0))
                break;
            fprintf(out,
                    "cpuid %08" PRIx32 " %08" PRIx32 " %08" PRIx32 " %08" PRIx32 " %08" PRIx32
                    " %08" PRIx32 "\n",
                    leaf, subleaf, now[0], now[1], now[2], now[3]);
            if (first != 0) /* only basic leaves have some that matter */
                break;
            memcpy(before, now, sizeof(now));
        }
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

static bool write_msrs(FILE *out, unsigned cpu, char why[WHY_MAX])
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/cpu/%u/msr", cpu);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(why, "cannot open ", path, "load the kernel's module: modprobe msr");
    for (unsigned i = 0; i < LENGTH_OF(msrs); i++)
        for (uint32_t index = msrs[i].first; index <= msrs[i].last; index++) {
            uint64_t value;

            if (pread(file, &value, sizeof(value), index) == sizeof(value))
                fprintf(out, "msr %08" PRIx32 " %016" PRIx64 "\n", index, value);
            else if (errno != EIO) {
                close(file);
                return fail(why, "cannot read MSRs from ", path, "allow it, as root");
            } else if (msrs[i].first != IA32_MTRR_PHYSBASE0) /* IA32_MTRRCAP says how many */
                fprintf(out, "msr %08" PRIx32 " fault\n", index);
        }
    close(file);
    return true;
}

static FILE *memory_file(char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);

    if (out == NULL)
        out_of_memory();
    return out;
}

/* One processor's lines, to be freed; NULL: *why. */
static char *processor_text(unsigned cpu, char why[WHY_MAX])
{
    char *text = NULL;
    size_t size;

    if (!run_on(cpu)) {
        fail(why, "cannot run on each processor", "", "try again without taskset");
        return NULL;
    }
    FILE *out = memory_file(&text, &size);
    write_leaves(out, 0);
    write_leaves(out, 0x40000000);
    write_leaves(out, 0x80000000);
    bool good = write_msrs(out, cpu, why);
    fclose(out);
    if (!good) {
        free(text);
        return NULL;
    }
    return text;
}

/* Of all but the first only what is different. */
static bool write_processors(FILE *out, const unsigned *online, size_t count, char why[WHY_MAX])
{
    char *first = NULL;

    for (size_t i = 0; i < count; i++) {
        char *text = processor_text(online[i], why);

        if (text == NULL) {
            free(first);
            return false;
        }
        fprintf(out, "cpu %u\n", online[i]);
        for (const char *line = text, *end; *line != '\0'; line = end) {
            end = strchr(line, '\n') + 1;
            if (first == NULL || memmem(first, strlen(first), line, (size_t)(end - line)) == NULL)
                fwrite(line, 1, (size_t)(end - line), out);
        }
        if (first == NULL)
            first = text;
        else
            free(text);
    }
    free(first);
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
 * arch/x86/kernel/smpboot.c before and after 6.5. `offline`: processors that are not online. */
static void write_log(FILE *out, size_t offline)
{
    int size = klogctl(SYSLOG_SIZE, NULL, 0);
    char *text = size > 0 ? calloc(1, (size_t)size + 1) : NULL;

    if (text == NULL || klogctl(SYSLOG_READ_ALL, text, size) <= 0) {
        fprintf(out, "offline %zu\n", offline);
        free(text);
        return;
    }
    const char *otherwise = strstr(text, "Linux version ") != NULL ? "off"
                                                                   : "unknown"; /* its start */
    fprintf(out, "x2apic %s\nremapping %s\n",
            strstr(text, "x2apic: enabled by BIOS") != NULL ? "on" : otherwise,
            strstr(text, "IRQ remapping was enabled on") != NULL ? "on" : otherwise);
    /* They will not come under the image either. */
    size_t dead = count_of(text, "do_boot_cpu failed(") +
                  count_of(text, "failed to report alive state");
    fprintf(out, "offline %zu\n", offline - (dead < offline ? dead : offline));
    /* "of the processor" first, and "TSC" once more where that is better known. */
    double mhz = 0;
    for (char *at = text; (at = strstr(at, TSC_LINE)) != NULL; at += strlen(TSC_LINE))
        mhz = strtod(at + strlen(TSC_LINE), NULL);
    if (mhz > 0 && mhz < UINT32_MAX / 1000)
        fprintf(out, "tsc_khz %.0f\n", mhz * 1000);
    free(text);
}

/* ---- the rest ---- */

static void write_facts(FILE *out)
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
            write_line(out, "fact", "%s: %.*s", files[i].name, (int)strcspn(text, "\n"), text);
        free(text);
    }
    /* Linux, arch/x86/events/intel/core.c, intel_pmu_init(): the names without a model. */
    char *pmu = file_text("/sys/devices/cpu/caps/pmu_name", NULL);
    if (pmu != NULL && strncmp(pmu, "generic_arch_", strlen("generic_arch_")) == 0)
        write_line(out, "fact",
                   "perf of this Linux does not know this processor's model (%.*s): it counts "
                   "architectural events alone",
                   (int)strcspn(pmu, "\n"), pmu);
    free(pmu);
    char *serial = file_text("/proc/tty/driver/serial", NULL);
    for (char *at = serial; at != NULL && (at = strstr(at, "uart:")) != NULL; at++)
        if (strncmp(at, "uart:unknown", 12) != 0)
            write_line(out, "fact", "serial: %.*s", (int)strcspn(at, "\n"), at);
    free(serial);
}

static bool write_machine(FILE *out, const char *esp, char why[WHY_MAX])
{
    static unsigned online[CPUS_MAX];
    size_t count = cpu_list("/sys/devices/system/cpu/online", online, CPUS_MAX);
    size_t present = cpu_list("/sys/devices/system/cpu/present", NULL, 0);

    if (count == 0)
        return fail(why, "found no processor in /sys/devices/system/cpu/online", "", "mount /sys");
    if (access("/dev/cpu/0/msr", F_OK) != 0)
        run_program("modprobe", "msr");
    fprintf(out, DUMP_TITLE "\n");
    write_log(out, present > count ? present - count : 0);
    write_memory_map(out);
    write_tables(out);
    write_units(out);
    write_secure_boot(out);
    write_facts(out);
    if (!write_esp(out, esp, why) || !write_processors(out, online, count, why))
        return false;
    fprintf(out, DUMP_END "\n");
    return true;
}

char *linux_dump(const char *esp, size_t *length, char why[WHY_MAX])
{
    char *text = NULL;

    errno = 0;
    if (geteuid() != 0) {
        fail(why, "found no right to read MSRs and ACPI tables, wanted root", "", "run it by sudo");
        return NULL;
    }
    FILE *out = memory_file(&text, length);
    bool good = write_machine(out, esp, why);
    fclose(out);
    if (!good) {
        free(text);
        return NULL;
    }
    return text;
}
