/* SPDX-License-Identifier: BSD-2-Clause
 * hibernate.c: the job `hibernate`. The kernel writes an image of itself to the disk and resets the
 * machine. The next start runs the same job, which finds the image and goes on from it, so that the
 * job ends once. Before and after, each processor counts branches with a PMI every PERIOD of them.
 * The image lies far behind all volumes, in a partition that only the kernel knows of.
 * Linux, Documentation/power/swsusp.rst; include/linux/swap.h, union swap_header.
 */
#include "../payload/payload.h"
#include "../payload/smp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <unistd.h>

#define DISK "/dev/sda"
#define WHOLE 2 /* the partition that reaches up to the disk's end */
#define NUMBER 3
#define PARTITION DISK "3"
#define DEVICE "8:3" /* its number */
#define FIRST_BYTE (64ll << 30)
#define BYTES (256ll << 20)
#define PAGE_BYTES 4096
#define SIGNATURE "SWAPSPACE2"
#define SECONDS_MAX 20
#define PERIOD 1000
#define ROUNDS 50000
#define PAGES 500

static int change_partition(int disk, int operation, int number)
{
    struct blkpg_partition part = {.start = FIRST_BYTE, .length = BYTES, .pno = number};
    struct blkpg_ioctl_arg argument = {.op = operation, .datalen = sizeof(part), .data = &part};

    return ioctl(disk, BLKPG, &argument);
}

/* The disk comes some time after its driver. */
static int make_partition(void)
{
    int disk = -1;

    load_drivers();
    for (int i = 0; i < SECONDS_MAX && disk < 0; i++) {
        disk = open(DISK, O_RDWR | O_CLOEXEC);
        if (disk < 0)
            sleep(1);
    }
    return disk < 0 || change_partition(disk, BLKPG_DEL_PARTITION, WHOLE) != 0 ||
           change_partition(disk, BLKPG_ADD_PARTITION, NUMBER) != 0;
}

static int make_swap(void)
{
    static struct {
        char boot[1024];
        uint32_t version, last_page, bad_pages;
        char unused[PAGE_BYTES - 1024 - 12 - 10];
        char signature[10];
    } page = {.version = 1, .last_page = BYTES / PAGE_BYTES - 1};
    int partition = open(PARTITION, O_RDWR | O_CLOEXEC | O_SYNC);

    _Static_assert(sizeof(page) == PAGE_BYTES, "a page");
    memcpy(page.signature, SIGNATURE, sizeof(page.signature));
    if (partition < 0 || write(partition, &page, sizeof(page)) != sizeof(page))
        return -1;
    close(partition);
    return swapon(PARTITION, 0);
}

static void count_on_each(const char *when)
{
    for (int cpu = 0; cpu < processors_online(); cpu++) {
        long long pmis = interrupt_count("PMI"), count;
        int fd;

        pin(0, cpu);
        fd = open_user_branches(PERIOD);
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        for (volatile int i = 0; i < ROUNDS; i++) {
        }
        count = stop_counter(fd);
        close(fd);
        printf("hibernate: when=%s cpu=%d branches=%lld pmis=%lld\n", when, cpu, count,
               interrupt_count("PMI") - pmis);
    }
}

int main(void)
{
    uint32_t(*pages)[PAGE_BYTES / sizeof(uint32_t)] = mmap(
        NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned wrong = 0;
    int error;

    setvbuf(stdout, NULL, _IOLBF, 0);
    perf_lift_limits();
    if (make_partition() != 0)
        return fail_job("hibernate", "partition", errno);
    /* Does not return where there is an image. */
    write_text("/sys/power/resume", DEVICE);
    if (make_swap() != 0)
        return fail_job("hibernate", "swap", errno);
    for (unsigned i = 0; i < PAGES; i++)
        pages[i][i] = i;
    count_on_each("before");
    write_text("/sys/power/image_size", "0");
    write_text("/sys/power/disk", "reboot");
    error = write_text("/sys/power/state", "disk");
    for (unsigned i = 0; i < PAGES; i++)
        wrong += pages[i][i] != i;
    printf("hibernate: error=%d wrong=%u\n", error, wrong);
    count_on_each("after");
    return error != 0 || wrong != 0;
}
