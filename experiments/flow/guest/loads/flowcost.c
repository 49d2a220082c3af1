/* SPDX-License-Identifier: BSD-2-Clause
 * flowcost.c: the job `flowcost`, whose loads the flow trace is priced by: a program that only
 * computes, one that calls the kernel, two that hand each other the processor, the same while the
 * kernel itself traces each switch (paper 002, section V.B, compares with that), one that sleeps,
 * and the kinds of its Table VII: memory, files and network. A file is one of the disk, read past
 * the page cache; network is TCP over the loopback device. Each is a region of the ledger; the last
 * line of each says how much work it was. Pinned to one processor, so that a switch is one.
 */
#define _GNU_SOURCE
#include "payload.h"
#include "smp.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Regions of the ledger. */
enum {
    REGION_FLOW_COMPUTE = 70,
    REGION_FLOW_CALLS = 71,
    REGION_FLOW_SLEEPS = 72,
    REGION_FLOW_SWITCHES = 73,
    REGION_FLOW_DISK = 74,
    REGION_FLOW_TRACED = 76,
    REGION_FLOW_MEMORY = 77,
    REGION_FLOW_NET = 78,
};

#define TRACEFS "/sys/kernel/tracing"
#define COMPUTE_ROUNDS 20000000L
#define CALLS 2000
#define TURNS 1000 /* two switches each */
#define SLEEPS 20
#define SLEEP_NS 1000000L
#define READS 64
#define DISK_WAITS 200
#define READ_BYTES 4096
#define MEMORY_BYTES (16UL << 20)
#define MESSAGES 500
#define MESSAGE_BYTES 1400

static void compute(void)
{
    unsigned long value = 1;

    for (long i = 0; i < COMPUTE_ROUNDS; i++) {
        value = value * 6364136223846793005UL + 1442695040888963407UL;
        __asm__ volatile("" : "+r"(value));
    }
}

static void call(void)
{
    for (int i = 0; i < CALLS; i++)
        (void)syscall(SYS_getppid);
}

/* Takes pages, writes and reads them, and gives them back. */
static void use_memory(void)
{
    char *at = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long sum = 0;

    if (at == MAP_FAILED)
        return;
    memset(at, 1, MEMORY_BYTES);
    for (size_t i = 0; i < MEMORY_BYTES; i += sizeof(long))
        sum += *(unsigned long *)(at + i);
    __asm__ volatile("" : : "r"(sum));
    munmap(at, MEMORY_BYTES);
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    for (int i = 0; i < SLEEPS; i++)
        (void)nanosleep(&pause, NULL);
}

static uint64_t began; /* TSC */

static void begin(unsigned region)
{
    began = time_stamp();
    region_begin(region);
}

static void end(const char *name, unsigned region)
{
    region_end(region);
    print_ticks("flowcost", name, region, 1, time_stamp() - began);
}

/* Sends a byte and waits for its answer, or the other way round. */
static int take_turns(int in, int out, bool first)
{
    char byte = 0;

    for (int i = 0; i < TURNS; i++) {
        if ((first && write(out, &byte, 1) != 1) || read(in, &byte, 1) != 1 ||
            (!first && write(out, &byte, 1) != 1)) {
            return 1;
        }
    }
    return 0;
}

static long switches(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nvcsw + usage.ru_nivcsw : -1;
}

static int ping_pong(const char *name, unsigned region)
{
    int there[2], back[2], status;

    if (pipe(there) != 0 || pipe(back) != 0)
        return 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(take_turns(there[0], back[1], false));
    long before = switches();
    begin(region);
    int failed = take_turns(back[0], there[1], true);
    end(name, region);
    printf("flowcost: load=%s region=%u turns=%d waits=%ld\n", name, region, TURNS,
           switches() - before);
    failed |= waitpid(child, &status, 0) != child || status != 0;
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
    return failed;
}

/* A kernel without tracefs is no failure: the load is not there then. */
static int ping_pong_traced(void)
{
    if ((mount("tracefs", TRACEFS, "tracefs", 0, NULL) != 0 && errno != EBUSY) ||
        write_text(TRACEFS "/events/sched/sched_switch/enable", "1") != 0) {
        printf("flowcost: load=traced region=0\n");
        return 0;
    }
    (void)write_text(TRACEFS "/tracing_on", "1");
    int failed = ping_pong("traced", REGION_FLOW_TRACED);
    return failed | (write_text(TRACEFS "/events/sched/sched_switch/enable", "0") != 0);
}

/* One asks, the other answers, each message over TCP. */
static int talk(int connection, bool first)
{
    static char message[MESSAGE_BYTES];

    for (int i = 0; i < 2 * MESSAGES; i++) {
        bool sends = (i % 2 == 0) == first;

        if (sends ? send(connection, message, sizeof(message), 0) != sizeof(message)
                  : recv(connection, message, sizeof(message), MSG_WAITALL) != sizeof(message)) {
            return 1;
        }
    }
    return 0;
}

static int loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    int failed = ioctl(control, SIOCGIFFLAGS, &request);

    request.ifr_flags |= IFF_UP;
    failed |= ioctl(control, SIOCSIFFLAGS, &request);
    close(control);
    return failed;
}

static int over_network(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(here);
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), status;

    if (loopback_up() != 0 || bind(server, (struct sockaddr *)&here, size) != 0 ||
        listen(server, 1) != 0 || getsockname(server, (struct sockaddr *)&here, &size) != 0) {
        printf("flowcost: load=net error=\"%s\"\n", strerror(errno));
        return 1;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(connect(client, (struct sockaddr *)&here, size) != 0 || talk(client, true) != 0);
    int connection = accept(server, NULL, NULL);
    begin(REGION_FLOW_NET);
    int failed = talk(connection, false);
    end("net", REGION_FLOW_NET);
    printf("flowcost: load=net region=%d messages=%d\n", REGION_FLOW_NET, 2 * MESSAGES);
    failed |= waitpid(child, &status, 0) != child || status != 0;
    close(connection);
    close(client);
    close(server);
    return failed;
}

/* The disk is there some time after its driver. */
static int open_disk(const char *path)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    int file = -1;

    for (int i = 0; i < DISK_WAITS && file < 0; i++) {
        file = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (file < 0)
            (void)nanosleep(&pause, NULL);
    }
    return file;
}

/* No disk is no failure: there may be none that this kernel knows. */
static int read_disk(void)
{
    static char buffer[READ_BYTES] __attribute__((aligned(READ_BYTES)));
    char path[64];
    int reads = 0;

    load_drivers();
    command_line_word("pmv.disk", "/dev/sda", path, sizeof(path));
    int file = open_disk(path);
    if (file < 0) {
        printf("flowcost: load=disk path=%s reads=0\n", path);
        return 0;
    }
    begin(REGION_FLOW_DISK);
    while (reads < READS &&
           pread(file, buffer, READ_BYTES, (off_t)reads * READ_BYTES) == READ_BYTES) {
        reads++;
    }
    end("disk", REGION_FLOW_DISK);
    close(file);
    printf("flowcost: load=disk region=%d path=%s reads=%d\n", REGION_FLOW_DISK, path, reads);
    return reads != READS;
}

static void measured(const char *name, unsigned region, void (*load)(void), long work)
{
    load(); /* once, so that its pages are there */
    begin(region);
    load();
    end(name, region);
    printf("flowcost: load=%s region=%u work=%ld\n", name, region, work);
}

int main(void)
{
    pin(0, 0);
    measured("compute", REGION_FLOW_COMPUTE, compute, COMPUTE_ROUNDS);
    measured("calls", REGION_FLOW_CALLS, call, CALLS);
    measured("sleeps", REGION_FLOW_SLEEPS, rest, SLEEPS);
    measured("memory", REGION_FLOW_MEMORY, use_memory, MEMORY_BYTES);
    return ping_pong("switches", REGION_FLOW_SWITCHES) | ping_pong_traced() | over_network() |
           read_disk();
}
