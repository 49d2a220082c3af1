/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.c: the load. What it does is chosen for what it does to memory: page faults and copied
 * pages, string instructions of the kernel, saved registers of the FPU, frames of interrupts,
 * exceptions and NMIs, locked instructions, accesses over the end of a page.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4
#define VGA_MEMORY 0xa0000
#define STORES 400
#define CALLS 20
#define SLEEPS 2
#define SLEEP_NS 1000000L
#define BRANCHES_PER_SAMPLE 31 /* of user mode, where the PMIs' own handling is not counted */
#define SAMPLED_ROUNDS 3
#define BUFFER_PAGES 9 /* perf_event_open(2): one, and a power of two */

static int fail(const char *what)
{
    printf("memtruth: error=\"%s: %s\"\n", what, strerror(errno));
    return -1;
}

static void stores(volatile uint8_t *area)
{
    double sum = 0;

    for (unsigned i = 0; i < STORES; i++) {
        volatile uint64_t *at = (volatile uint64_t *)(area + i * 24 % (PAGE - 8));
        *at = i;
        *(volatile uint16_t *)(area + PAGE + i * 2) += (uint16_t)i;
        __atomic_fetch_add((uint32_t *)(area + 2 * PAGE + i % 64 * 4), 1, __ATOMIC_SEQ_CST);
        sum += i;
        *(volatile double *)(void *)(area + 2 * PAGE + 512) = sum;
    }
    /* Over the end of a page, one byte further each time. */
    for (unsigned i = 1; i < 8; i++) {
        uint64_t *at = (uint64_t *)(area + PAGE - i);
        __asm__ volatile("movq %1, (%0)" : : "r"(at), "r"(0x0102030405060708) : "memory");
    }
    memset((void *)(area + 3 * PAGE), 0x5a, PAGE);
    memcpy((void *)(area + PAGE + 100), (void *)(area + 3 * PAGE), 1000);
}

static void calls(void)
{
    for (int i = 0; i < CALLS; i++)
        (void)syscall(SYS_getppid);
}

static int child(void)
{
    char *const arguments[] = {"memtruth", LOAD_CHILD, NULL};
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return fail("child");
    return 0;
}

static int sleeps(void)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    for (int i = 0; i < SLEEPS; i++)
        if (nanosleep(&pause, NULL) != 0)
            return fail("nanosleep");
    return 0;
}

/* Samples branches of this thread in user mode; each sample is a PMI, which Linux takes as an
 * NMI. Gives how many bytes of samples there were, -1 where it cannot. */
static long sampled(uint8_t *area)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
        .sample_period = BRANCHES_PER_SAMPLE,
        .sample_type = PERF_SAMPLE_IP,
        .disabled = 1,
        .exclude_kernel = 1,
    };
    int event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

    if (event < 0)
        return fail("perf_event_open");
    struct perf_event_mmap_page *buffer = mmap(NULL, BUFFER_PAGES * PAGE, PROT_READ | PROT_WRITE,
                                               MAP_SHARED, event, 0);
    if (buffer == MAP_FAILED)
        return fail("mmap of the samples");
    (void)ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
    for (int i = 0; i < SAMPLED_ROUNDS; i++) {
        stores(area);
        calls();
    }
    (void)ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
    long bytes = (long)buffer->data_head;
    munmap(buffer, BUFFER_PAGES * PAGE);
    close(event);
    return bytes;
}

/* Memory of a device that no driver has by now: VGA's. */
static uint8_t *device(void)
{
    int memory = open("/dev/mem", O_RDWR | O_CLOEXEC);
    void *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, VGA_MEMORY);

    close(memory);
    return area;
}

int load_touch(unsigned pages)
{
    uint8_t *area = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        return fail("mmap");
    for (unsigned i = 0; i < pages; i++)
        *(volatile uint8_t *)(area + (size_t)i * PAGE) = 1;
    return munmap(area, (size_t)pages * PAGE);
}

int load_run(int rounds, bool with_samples, bool of_device)
{
    long samples = 0;

    for (int i = 0; i < rounds; i++) {
        /* New pages each time: their faults are part of it. */
        uint8_t *area = of_device ? device()
                                  : mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED)
            return fail("mmap");
        stores(area);
        calls();
        if (child() != 0 || sleeps() != 0)
            return -1;
        long bytes = with_samples ? sampled(area) : 0;
        if (bytes < 0)
            return -1;
        samples += bytes;
        munmap(area, PAGES * PAGE);
    }
    printf("memtruth: rounds=%d sample_bytes=%ld\n", rounds, samples);
    return with_samples && samples == 0 ? -1 : 0;
}
