/* SPDX-License-Identifier: BSD-2-Clause
 * load.c: each of the states has its processes. Two that compete are preempted. A server and its
 * client wait for each other; so do a pair on one processor, by a pipe. Two sleep and work by
 * turns. One has four threads, which switch without a load of CR3. All but one stay where the
 * competitors are. First the threads work together, then one after the other: whoever follows a
 * thread that sleeps while its siblings wait loads CR3 on that thread's stack. Before and after all
 * of it nobody has work.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hypervisor.h"

#define COMPETITOR_ROUNDS 20000000u
#define SERVER_TURNS 100
#define SERVER_WORK 10000u
#define PIPE_TURNS 100
#define SLEEPS 40
#define SLEEP_NS 7000000L
#define SLEEPER_WORK 20000u
#define THREADS 3     /* beside the first one, which works as they do */
#define FREE_THREAD 0 /* runs on any processor */
#define THREAD_TURNS 25
#define ALONE_TURNS 20
#define THREAD_WORK 30000u
#define QUIET_NS 900000000L

struct member {
    const char *name;
    int (*work)(int arm);
    int arm;
    int processor; /* -1: any */
    pid_t pid;
};

static int server_ends[2], ping[2], pong[2], go[2], done[2], stop[2];
static pthread_barrier_t all_worked;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

/* Works in user space, without a system call. */
static void compute(uint32_t rounds)
{
    volatile uint32_t sum = 0;

    for (uint32_t i = 0; i < rounds; i++)
        sum += i;
}

static void rest(long ns)
{
    struct timespec left = {.tv_nsec = ns};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static int competitor(int arm)
{
    (void)arm;
    compute(COMPETITOR_ROUNDS);
    return 0;
}

/* arm 0 asks, arm 1 answers. */
static int server(int arm)
{
    int end = server_ends[arm];
    char byte = 0;

    for (int turn = 0; turn < SERVER_TURNS; turn++) {
        if (arm == 0 && write(end, &byte, 1) != 1)
            return 1;
        if (read(end, &byte, 1) != 1)
            return 1;
        compute(SERVER_WORK);
        if (arm == 1 && write(end, &byte, 1) != 1)
            return 1;
        if (arm == 0 && turn % 10 == 0)
            rest(2000000);
    }
    return 0;
}

static int piper(int arm)
{
    char byte = 0;

    for (int turn = 0; turn < PIPE_TURNS; turn++) {
        if (arm == 0 && (write(ping[1], &byte, 1) != 1 || read(pong[0], &byte, 1) != 1))
            return 1;
        if (arm == 1 && (read(ping[0], &byte, 1) != 1 || write(pong[1], &byte, 1) != 1))
            return 1;
    }
    return 0;
}

static int sleeper(int arm)
{
    for (int turn = 0; turn < SLEEPS; turn++) {
        compute(SLEEPER_WORK * (unsigned)(1 + arm));
        rest(SLEEP_NS + arm * 1300000L);
    }
    return 0;
}

static void take_turns(int turns, long rest_ns)
{
    for (int turn = 0; turn < turns; turn++) {
        compute(THREAD_WORK);
        rest(rest_ns);
    }
}

static void *thread_work(void *number)
{
    long rest_ns = 1000000L * (1 + (long)(intptr_t)number);
    void *failed = NULL; /* not returned at once: the others wait at the barrier */
    cpu_set_t any;

    memset(&any, 0xff, sizeof(any));
    if ((intptr_t)number == FREE_THREAD && sched_setaffinity(0, sizeof(any), &any) != 0)
        failed = (void *)1;
    take_turns(THREAD_TURNS, rest_ns);
    pthread_barrier_wait(&all_worked);
    pthread_mutex_lock(&alone);
    take_turns(ALONE_TURNS, rest_ns);
    pthread_mutex_unlock(&alone);
    return failed;
}

static int threads(int arm)
{
    pthread_t thread[THREADS];
    void *failed;
    int result = 0;

    (void)arm;
    if (pthread_barrier_init(&all_worked, NULL, THREADS + 1) != 0)
        return 1;
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, thread_work, (void *)i) != 0)
            return 1;
    thread_work((void *)(intptr_t)THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_join(thread[i], &failed) != 0 || failed)
            result = 1;
    return result;
}

static struct member members[] = {
    {"compete0", competitor, 0, 0, 0}, {"compete1", competitor, 1, 0, 0},
    {"client", server, 0, -1, 0},      {"server", server, 1, -1, 0},
    {"ping", piper, 0, 0, 0},          {"pong", piper, 1, 0, 0},
    {"sleeper0", sleeper, 0, -1, 0},   {"sleeper1", sleeper, 1, -1, 0},
    {"threads", threads, 0, 0, 0},
};
#define MEMBERS ((int)(sizeof(members) / sizeof(members[0])))

/* What a member does. It waits for the word to go and, when it is done, for the word to end. */
static int member_run(const struct member *member)
{
    char byte = 0;

    prctl(PR_SET_NAME, member->name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (member->processor >= 0 && !run_on(member->processor))
        return 1;
    if (read(go[0], &byte, 1) != 1 || member->work(member->arm) != 0 ||
        write(done[1], &byte, 1) != 1)
        return 1;
    close(stop[1]); /* else it never sees the end of that pipe */
    return read(stop[0], &byte, 1) != 0;
}

int load_start(void)
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, server_ends) != 0 || pipe(ping) != 0 ||
        pipe(pong) != 0 || pipe(go) != 0 || pipe(done) != 0 || pipe(stop) != 0)
        return -1;
    for (int i = 0; i < MEMBERS; i++) {
        members[i].pid = fork();
        if (members[i].pid == 0)
            _exit(member_run(&members[i]));
        if (members[i].pid < 0)
            return -1;
    }
    close(done[1]); /* so that a member that fails is not waited for */
    return 0;
}

int load_run(void)
{
    char bytes[MEMBERS];

    memset(bytes, 0, sizeof(bytes));
    rest(QUIET_NS / 10); /* all of them wait for the word */
    if (write(go[1], bytes, MEMBERS) != MEMBERS)
        return -1;
    for (int left = MEMBERS; left > 0;) {
        ssize_t got = read(done[0], bytes, (size_t)left);

        if (got <= 0)
            return -1;
        left -= (int)got;
    }
    rest(QUIET_NS);
    return 0;
}

int load_end(void)
{
    int result = 0;

    close(stop[1]);
    for (int i = 0; i < MEMBERS; i++) {
        int status;

        if (waitpid(members[i].pid, &status, 0) != members[i].pid || status != 0) {
            printf("flowtruth: error=\"%s ended with status %#x\"\n", members[i].name, status);
            result = -1;
        }
    }
    return result;
}
