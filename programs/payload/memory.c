/* SPDX-License-Identifier: BSD-2-Clause memory.c: the job `touch`: reads and writes the memory that
 * the firmware map calls reserved. The hypervisor's own memory is among it: there each access must
 * end in #GP(0), which Linux turns into SIGSEGV from the kernel; the rest is firmware's and is only
 * read. pmv.touch=ADDRESS: that page as well.
 */
#include "payload.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096ul
#define LOW_MEMORY_END 0x100000ul
#define MEMMAP "/sys/firmware/memmap"

static sigjmp_buf on_fault;
static volatile int fault_code;

static void note_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    fault_code = info->si_code;
    siglongjmp(on_fault, 1);
}

/* True when the access took a fault that came from the kernel without an address: #GP. */
static bool faults(volatile uint32_t *word, bool write)
{
    fault_code = 0;
    if (sigsetjmp(on_fault, 1) == 0) {
        if (write)
            *word = 0;
        else
            (void)*word;
    }
    return fault_code == SI_KERNEL;
}

static uint64_t memmap_number(const char *entry, const char *name)
{
    char path[512];
    char *text;

    snprintf(path, sizeof(path), MEMMAP "/%s/%s", entry, name);
    text = read_text(path);
    return text == NULL ? 0 : strtoull(text, NULL, 0);
}

/* Touches the first, the middle and the last page of a region; the number of pages that faulted. */
static int touch_region(int mem, uint64_t start, uint64_t end)
{
    uint64_t last = (end + 1 - PAGE_BYTES) & ~(PAGE_BYTES - 1);
    uint64_t pages[] = {start, (start + (end - start) / 2) & ~(PAGE_BYTES - 1), last};
    int faulted = 0;

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        void *at = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem, (off_t)pages[i]);

        if (at == MAP_FAILED) {
            printf("touch: address=%#llx error=\"not mappable\"\n", (unsigned long long)pages[i]);
            continue;
        }
        /*
         * A write is tried only where the read already showed that nothing is behind it, and never
         * in a first page: a write there may be PMUvisor's reset register.
         */
        faulted += faults(at, false) && (i == 0 || faults(at, true));
        munmap(at, PAGE_BYTES);
    }
    return faulted;
}

JOB(touch)
{
    struct sigaction action = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};
    int regions = 0, faulted_regions = 0;
    int mem = open("/dev/mem", O_RDWR | O_CLOEXEC);
    DIR *map = opendir(MEMMAP);
    struct dirent *entry;
    char word[32];

    if (mem < 0 || map == NULL) {
        printf("touch: error=\"no /dev/mem or no " MEMMAP "\"\n");
        return 1;
    }
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    while ((entry = readdir(map)) != NULL) {
        char path[512];
        uint64_t start, end;
        char *type;
        int faulted;

        snprintf(path, sizeof(path), MEMMAP "/%s/type", entry->d_name);
        type = read_text(path);
        if (type == NULL || strncmp(type, "Reserved", strlen("Reserved")) != 0)
            continue;
        start = memmap_number(entry->d_name, "start");
        end = memmap_number(entry->d_name, "end");
        if (start < LOW_MEMORY_END || end - start < PAGE_BYTES - 1)
            continue;
        faulted = touch_region(mem, start, end);
        printf("touch: start=%#llx end=%#llx faulted=%d\n", (unsigned long long)start,
               (unsigned long long)end, faulted);
        regions++;
        faulted_regions += faulted > 0;
    }
    command_line_word("pmv.touch", "", word, sizeof(word));
    if (word[0] != '\0') {
        uint64_t page = strtoull(word, NULL, 0);
        printf("touch: page=%s faulted=%d\n", word, touch_region(mem, page, page + PAGE_BYTES - 1));
    }
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    closedir(map);
    close(mem);
    printf("touch: regions=%d faulted_regions=%d\n", regions, faulted_regions);
    return (faulted_regions > 0) != hyper_present();
}
