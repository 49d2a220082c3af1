/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: the job `flowdemo`: a load with each state of a process, recorded by flowtrace, and what
 * came of it handed over to the emulator (testbed/README.md, "Files of the guest"). The load:
 * `calm` and `hasty` compete for one processor, `client` asks `server`, and then nobody does
 * anything. Before it, what a guest may do to a ring: read it, and not write it.
 *
 * Words of the kernel's command line:
 *   pmv.level=flow|exits   what flowtrace is asked for
 *   pmv.exits=0            so many CPUIDs, while flowtrace is stopped: rings overflow
 *   pmv.print=0            1: the files go to the console as text, for QEMU
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command_line.h"
#include "hand_over.h"
#include "hypercall.h"
#include "hypervisor.h"
#include "print_file.h"
#include "region.h"
#include "trace_ring.h"

#define TOOL "/jobs/flowtrace"
#define TRACE_FILE "/tmp.ptrace"
#define NAMES_FILE "/tmp.names"
#define REGION_READ 75       /* a ring is read from its first byte to its last */
#define COMPETE_NS 60000000L /* at least: it ends when the names are written */
#define REQUESTS 40
#define SERVICE_ROUNDS 20000
#define IDLE_NS 30000000L

static int fail(const char *what)
{
    printf("flowdemo: error=\"%s: %s\"\n", what, strerror(errno));
    return 1;
}

static void rest(int64_t ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)nanosleep(&t, NULL);
}

static void work(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++)
        ;
}

/* ---- the load ---- */

static volatile sig_atomic_t over;

static void end(int number)
{
    (void)number;
    over = 1;
}

static int compete(void)
{
    signal(SIGTERM, end);
    run_on(0);
    while (!over)
        work(1000);
    return 0;
}

static int serve(int socket)
{
    char byte;

    while (read(socket, &byte, 1) == 1) {
        work(SERVICE_ROUNDS);
        if (write(socket, &byte, 1) != 1)
            break;
    }
    return 0;
}

static int ask(int socket)
{
    char byte = 0;

    for (int i = 0; i < REQUESTS; i++) {
        if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
            return 1;
        rest(500000);
    }
    return 0;
}

/* Each begins anew by exec, so that it has places in memory of its own, and a name. */
static pid_t start(const char *role, int socket)
{
    char number[16];
    pid_t child = fork();

    if (child == 0) {
        snprintf(number, sizeof(number), "%d", socket);
        execl("/proc/self/exe", role, number, NULL);
        _exit(127);
    }
    return child;
}

static int play(const char *role, int socket)
{
    prctl(PR_SET_NAME, role);
    if (strcmp(role, "server") == 0)
        return serve(socket);
    return strcmp(role, "client") == 0 ? ask(socket) : compete();
}

static bool ended_well(pid_t child)
{
    int status;

    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void make_exits(void)
{
    char exits[16];
    unsigned eax, ebx, ecx, edx;

    command_line_word("pmv.exits", "0", exits, sizeof(exits));
    long count = strtol(exits, NULL, 10);
    if (count == 0)
        return;
    kill(getppid(), SIGSTOP);
    for (long i = 0; i < count; i++)
        __cpuid(0, eax, ebx, ecx, edx);
    kill(getppid(), SIGCONT);
}

static int load(void)
{
    pid_t child[4];
    int sockets[2];
    bool good = socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0;

    make_exits();
    child[0] = start("calm", -1);
    child[1] = start("hasty", -1);
    fcntl(sockets[1], F_SETFD, FD_CLOEXEC);
    child[2] = start("server", sockets[0]);
    fcntl(sockets[1], F_SETFD, 0);
    close(sockets[0]);
    child[3] = start("client", sockets[1]);
    close(sockets[1]);
    rest(COMPETE_NS);
    pid_t names = fork();
    if (names == 0) {
        execl(TOOL, TOOL, "names", NAMES_FILE, NULL);
        _exit(127);
    }
    good &= ended_well(names);
    kill(child[0], SIGTERM);
    kill(child[1], SIGTERM);
    for (int i = 0; i < 4; i++)
        good &= ended_well(child[i]);
    rest(IDLE_NS);
    return good ? 0 : fail("the load");
}

/* ---- a ring, as a guest may use it ---- */

static int look_at_ring(void)
{
    uint64_t ring, bytes, sum = 0;
    int memory = open("/dev/mem", O_RDWR | O_CLOEXEC);

    if (memory < 0)
        return fail("/dev/mem");
    if (hypercall_trace(TRACE_ASK, &ring, &bytes) < 0) {
        printf("flowdemo: rings=0\n");
        close(memory);
        return 0;
    }
    volatile uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory,
                                    (off_t)ring);
    close(memory);
    if (words == MAP_FAILED)
        return fail("mmap of the ring");
    for (uint64_t i = 0; i < bytes / sizeof(*words); i += 512)
        sum += words[i]; /* its pages are in the page table from here on */
    region_mark(REGION_READ, true);
    for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
        sum += words[i];
    region_mark(REGION_READ, false);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        words[0] = sum;
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return fail("a child");
    printf("flowdemo: rings=1 bytes=%lu write=%s magic=%d\n", (unsigned long)bytes,
           WIFSIGNALED(status) ? "refused" : "done", words[0] == TRACE_RING_MAGIC);
    return !(WIFSIGNALED(status) && words[0] == TRACE_RING_MAGIC);
}

/* ---- all of it ---- */

static int run(char *const arguments[])
{
    int status;

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

int main(int argc, char **argv)
{
    char level[16], print[4];
    char *const status[] = {TOOL, "status", NULL};

    if (argc > 1 && strcmp(argv[1], "load") != 0)
        return play(argv[0], atoi(argv[1]));
    if (argc > 1)
        return load();
    command_line_word("pmv.level", "flow", level, sizeof(level));
    char *const record[] = {TOOL, "record", TRACE_FILE, "--level", level,
                            "--", argv[0],  "load",     NULL};
    if (look_at_ring() != 0)
        return 1;
    printf("flowdemo: status=%d\n", run(status));
    int recorded = run(record);
    printf("flowdemo: record=%d\n", recorded);
    if (recorded != 0)
        return 1;
    command_line_word("pmv.print", "0", print, sizeof(print));
    if (strcmp(print, "1") == 0)
        return !(print_file("ptrace", TRACE_FILE) && print_file("names", NAMES_FILE));
    return !(hand_over_file("ptrace", TRACE_FILE) && hand_over_file("names", NAMES_FILE));
}
