/* SPDX-License-Identifier: BSD-2-Clause
 * crash.c: jobs around a kernel's end, by the name that the program is called by.
 * `crash`: loads /kexec/vmlinuz as the crash kernel and panics; that kernel runs the jobs
 * pmv.kexec=.
 * `vmcore`: in the crash kernel; reads all of /proc/vmcore, and counts what `crash` had left in
 * memory.
 * `nmi`: sends an NMI that nobody knows to the processor pmv.target= (iomem=relaxed), for a kernel
 * that panics by it.
 * SDM Vol. 3, "Issuing Interprocessor Interrupts".
 */
#include "../payload/payload.h"
#include "../payload/smp.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096ul
#define MARKED_PAGES 1000
#define MARK 0x70616765206d6172ull /* a marked page's first eight bytes; its number follows */
#define CHUNK (256 * PAGE_BYTES)
#define APIC_PAGE 0xfee00000l
#define ICR_LOW 0x300
#define ICR_HIGH 0x310
#define ICR_NMI 0x4400u /* delivery mode NMI, level assert */

static void flush_console(void)
{
    fflush(stdout);
    usleep(20000); /* the last characters are in the UART's FIFO */
}

static int crash(void)
{
    uint64_t(*pages)[PAGE_BYTES / sizeof(uint64_t)] = mmap(NULL, MARKED_PAGES * PAGE_BYTES,
                                                           PROT_READ | PROT_WRITE,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int error = load_crash_kernel("vmcore");
    char cpu[16];

    command_line_word("pmv.target", "0", cpu, sizeof(cpu));
    if (error != 0)
        return fail_job("crash", "kexec_file_load", -error);
    for (uint64_t i = 0; i < MARKED_PAGES; i++) {
        pages[i][0] = MARK;
        pages[i][1] = i;
    }
    printf("crash: pages=%d cpu=%s\n", MARKED_PAGES, cpu);
    flush_console();
    pin(0, atoi(cpu));
    write_text("/proc/sys/kernel/sysrq", "1\n");
    return write_text("/proc/sysrq-trigger", "c") != 0;
}

/* What the ELF headers say that the file holds: the end of its last part. */
static uint64_t said_size(int core, unsigned *parts)
{
    uint64_t end = 0;
    Elf64_Ehdr file;
    Elf64_Phdr part;

    *parts = 0;
    if (pread(core, &file, sizeof(file), 0) != sizeof(file))
        return 0;
    for (unsigned i = 0; i < file.e_phnum; i++) {
        if (pread(core, &part, sizeof(part), (off_t)(file.e_phoff + i * sizeof(part))) !=
            sizeof(part))
            return 0;
        *parts += part.p_type == PT_LOAD;
        end = part.p_offset + part.p_filesz > end ? part.p_offset + part.p_filesz : end;
    }
    return end;
}

static int vmcore(void)
{
    static uint8_t buffer[CHUNK] __attribute__((aligned(PAGE_BYTES)));
    static bool seen[MARKED_PAGES];
    int core = open("/proc/vmcore", O_RDONLY | O_CLOEXEC);
    uint64_t wanted, bytes = 0, used = 0;
    unsigned parts, marks = 0;
    ssize_t n;

    if (core < 0)
        return fail_job("vmcore", "/proc/vmcore", errno);
    wanted = said_size(core, &parts);
    /* A read ends at the end of a part, so each chunk is filled before it is looked at. */
    while ((n = read(core, buffer + used, CHUNK - used)) > 0 || used > 0) {
        bytes += n > 0 ? (uint64_t)n : 0;
        used += n > 0 ? (uint64_t)n : 0;
        if (n > 0 && used < CHUNK)
            continue;
        for (uint64_t *word = (uint64_t *)buffer; word < (uint64_t *)(buffer + used);
             word += PAGE_BYTES / sizeof(*word)) {
            if (word[0] == MARK && word[1] < MARKED_PAGES && !seen[word[1]]) {
                seen[word[1]] = true;
                marks++;
            }
        }
        used = 0;
    }
    if (n < 0)
        return fail_job("vmcore", "read", errno);
    printf("vmcore: parts=%u bytes=%llu wanted=%llu marks=%u of=%d\n", parts,
           (unsigned long long)bytes, (unsigned long long)wanted, marks, MARKED_PAGES);
    return bytes != wanted || marks != MARKED_PAGES;
}

static int nmi(void)
{
    int memory = open("/dev/mem", O_RDWR | O_CLOEXEC);
    volatile uint32_t *apic = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory,
                                   APIC_PAGE);
    char target[16];

    if (apic == MAP_FAILED)
        return fail_job("nmi", "/dev/mem", errno);
    command_line_word("pmv.target", "0", target, sizeof(target));
    nmi_watchdog_set(false);
    printf("nmi: target=%s\n", target);
    flush_console();
    apic[ICR_HIGH / sizeof(*apic)] = (uint32_t)atoi(target) << 24;
    apic[ICR_LOW / sizeof(*apic)] = ICR_NMI;
    usleep(100000);
    printf("nmi: nmis=%lld\n", interrupt_count("NMI"));
    return 0;
}

int main(int argc, char *argv[])
{
    const char *name = strrchr(argv[0], '/');
    static const struct job jobs[] = {{"/crash", crash}, {"/vmcore", vmcore}, {"/nmi", nmi}};

    (void)argc;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
        if (name != NULL && strcmp(name, jobs[i].name) == 0)
            return jobs[i].run();
    return 127;
}
