/* SPDX-License-Identifier: BSD-2-Clause
 * probes.c: the job `probes`: CPUID under a uprobe, of this program's own, and under a kprobe, in
 * the module pmuvisor_probed. Linux executes the probed instruction elsewhere: by a single step, or
 * with an INT3 behind it. So CPUID exits out of a copy of the code, with RFLAGS.TF or before an
 * INT3.
 * Prints what each probe recorded, before and after the instruction. The job fails if a probed
 * CPUID gives something else than the same CPUID without a probe. Linux,
 * Documentation/trace/uprobetracer.rst, kprobetrace.rst; SDM Vol. 3, "Single-Stepping".
 */
#include "../payload/payload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACING "/sys/kernel/tracing"
#define PROGRAM "/jobs/probes"
#define MODULE "pmuvisor_probed"
#define PARAMETER "/sys/module/" MODULE "/parameters/"
#define FUNCTION MODULE ":execute_cpuid"
#define CPUID_BYTES 2
#define PERIOD 997 /* instructions between two PMIs, while probes hit */

/* Of leaves that are the same natively and in the guest. */
static const struct {
    uint32_t leaf, subleaf;
} leaves[] = {{0, 0}, {2, 0}, {4, 1}, {4, 2}, {0x15, 0}, {0x80000002, 0}, {0x80000008, 0}};
#define LEAVES (sizeof(leaves) / sizeof(leaves[0]))

extern const char probed_cpuid[];

static _Noreturn void give_up(const char *what)
{
    printf("probes: error=\"%s: %s\"\n", what, strerror(errno));
    exit(1);
}

/* The one CPUID with that name: never inlined, so that there is one. */
__attribute__((noinline, noclone)) static struct cpuid_regs probed(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_regs a = {.eax = leaf, .ecx = subleaf};

    __asm__ volatile(".globl probed_cpuid\n.type probed_cpuid, @function\n"
                     "probed_cpuid: cpuid\n\tnop\n.size probed_cpuid, . - probed_cpuid"
                     : "+a"(a.eax), "=b"(a.ebx), "+c"(a.ecx), "=d"(a.edx));
    return a;
}

static void tell(const char *file, const char *text)
{
    int error = write_text(file, text);

    if (error != 0) {
        errno = -error;
        give_up(text);
    }
}

/* The module's. */
static struct cpuid_regs in_kernel(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_regs a = {0};
    char text[32], *found;

    snprintf(text, sizeof(text), "%x %x", leaf, subleaf);
    tell(PARAMETER "cpuid", text);
    found = read_text(PARAMETER "cpuid");
    if (found == NULL || sscanf(found, "%x %x %x %x", &a.eax, &a.ebx, &a.ecx, &a.edx) != 4)
        give_up(PARAMETER "cpuid");
    return a;
}

/* Where an address of this program is in its file. */
static uint64_t file_offset(uint64_t address)
{
    const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);

    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++, header++)
        if (header->p_type == PT_LOAD && address - header->p_vaddr < header->p_filesz)
            return address - header->p_vaddr + header->p_offset;
    give_up("own program headers");
}

/* Prints what the probes have recorded since the last time, without the columns that time decides.
 * Returns how many lines. */
static unsigned recorded(const char *kind)
{
    FILE *trace = fopen(TRACING "/trace", "r");
    char line[512];
    unsigned count = 0;

    while (trace != NULL && fgets(line, sizeof(line), trace) != NULL) {
        char *at = strstr(line, ": at_"), *end = at != NULL ? at : strstr(line, ": after_");

        if (line[0] == '#' || end == NULL)
            continue;
        /* NAME: (ADDRESS) REGISTERS; the kernel's addresses are another kernel's at each start. */
        char *name = end + 2, *registers = strchr(name, ')');

        if (registers != NULL) {
            *strchr(name, ':') = '\0';
            printf("probes: kind=%s probe=%s%s", kind, name, registers + 1);
        }
        count++;
    }
    if (trace != NULL)
        fclose(trace);
    close(open(TRACING "/trace", O_WRONLY | O_TRUNC | O_CLOEXEC));
    return count;
}

/* PMIs, while probes hit. */
static int sample(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .sample_period = PERIOD};

    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Each leaf, with both probes, and its answer as before: 1 where not. */
static int round_of(const char *kind, struct cpuid_regs (*ask)(uint32_t, uint32_t),
                    const struct cpuid_regs *wanted)
{
    struct cpuid_regs found[LEAVES];
    int failed = 0;

    for (unsigned i = 0; i < LEAVES; i++)
        found[i] = ask(leaves[i].leaf, leaves[i].subleaf);
    failed |= recorded(kind) != 2 * LEAVES;
    for (unsigned i = 0; i < LEAVES; i++)
        failed |= memcmp(&found[i], &wanted[i], sizeof(found[i])) != 0;
    printf("probes: kind=%s failed=%d\n", kind, failed);
    return failed;
}

static int probe(const char *kind, const char *events, const char *at, const char *after,
                 struct cpuid_regs (*ask)(uint32_t, uint32_t))
{
    struct cpuid_regs wanted[LEAVES];
    char name[64];
    int failed, fd;

    for (unsigned i = 0; i < LEAVES; i++)
        wanted[i] = ask(leaves[i].leaf, leaves[i].subleaf);
    tell(events, at);
    tell(events, after);
    snprintf(name, sizeof(name), TRACING "/events/%ss/enable", kind);
    tell(name, "1");
    failed = round_of(kind, ask, wanted);
    fd = sample();
    if (fd < 0)
        give_up("perf_event_open");
    failed |= round_of(kind, ask, wanted);
    close(fd);
    tell(name, "0");
    return failed;
}

int main(void)
{
    uint64_t here = file_offset((uint64_t)probed_cpuid);
    char at[256], after[256];
    int failed, error = load_module(MODULE);

    errno = -error;
    if (error != 0 || mount("tracefs", TRACING, "tracefs", 0, NULL) != 0)
        give_up(error != 0 ? "module " MODULE : TRACING);
    perf_lift_limits();
    snprintf(at, sizeof(at), "p:uprobes/at_cpuid %s:%#lx ax=%%ax:x32 cx=%%cx:x32", PROGRAM, here);
    snprintf(after, sizeof(after),
             "p:uprobes/after_cpuid %s:%#lx ax=%%ax:x32 bx=%%bx:x32 cx=%%cx:x32 dx=%%dx:x32",
             PROGRAM, here + CPUID_BYTES);
    failed = probe("uprobe", TRACING "/uprobe_events", at, after, probed);

    const char *text = read_text(PARAMETER "offset");
    unsigned long offset = text == NULL ? 0 : strtoul(text, NULL, 10);

    snprintf(at, sizeof(at), "p:kprobes/at_cpuid " FUNCTION "+%lu ax=%%ax:x32 cx=%%cx:x32", offset);
    snprintf(after, sizeof(after),
             "p:kprobes/after_cpuid " FUNCTION
             "+%lu ax=%%ax:x32 bx=%%bx:x32 cx=%%cx:x32 dx=%%dx:x32",
             offset + CPUID_BYTES);
    failed |= probe("kprobe", TRACING "/kprobe_events", at, after, in_kernel);
    return failed;
}
