/* SPDX-License-Identifier: BSD-2-Clause
 *
 * signals.c: signals: a timer's, which come in the middle of a computation; faults: a handler that
 * makes the page that was missing, on a stack of its own, and a jump out of one; queued: signals
 * with values, some of them blocked for a while.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define SIGNALS 5
#define EVERY_US 1000
#define PAGE 4096u
#define PAGES 16u
#define VALUES 20

static volatile sig_atomic_t came;
static volatile uint32_t at;
static uint32_t where[SIGNALS];

/* Where in the computation it came is what rr has to find again, by a count of branches. */
static void on_timer(int number)
{
    (void)number;
    if (came < SIGNALS)
        where[came] = at;
    came++;
}

int run_signals(void)
{
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, EVERY_US}, {0, EVERY_US}};
    uint32_t sum = 1;

    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
    for (at = 0; came < SIGNALS; at++)
        sum = work(sum, 50);
    memset(&timer, 0, sizeof(timer));
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("signals: at least %d\n", SIGNALS);
    for (unsigned i = 0; i < SIGNALS; i++)
        varies("signal %u at %u", i, where[i]);
    varies("sum %u after %u", sum, at);
    return 0;
}

static char *pages;
static unsigned made;
static sigjmp_buf out;

static void on_fault(int number, siginfo_t *info, void *context)
{
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));

    (void)context;
    if (number == SIGFPE || page < pages || page >= pages + PAGES * PAGE)
        siglongjmp(out, number);
    made++;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(1);
}

int run_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ};
    volatile int one = 1, zero = 0;
    int number;

    pages = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED && sigaltstack(&stack, NULL) == 0, "mmap");
    must(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGFPE, &action, NULL) == 0,
         "sigaction");
    for (unsigned i = 0; i < PAGES; i++)
        pages[i * PAGE + i] = (char)i;
    number = sigsetjmp(out, 1);
    if (number == 0)
        *(volatile int *)(uintptr_t)PAGE = 1;
    printf("faults: %u pages made, then %s\n", made, strsignal(number));
    number = sigsetjmp(out, 1);
    if (number == 0)
        zero = one / zero;
    printf("faults: %s\n", strsignal(number));
    return made != PAGES;
}

static unsigned values;

static void on_value(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    values = values * 31 + (unsigned)info->si_value.sival_int;
}

int run_queued(void)
{
    struct sigaction action = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO};
    sigset_t set, pending;

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    must(sigaction(SIGRTMIN, &action, NULL) == 0, "sigaction");
    for (int i = 0; i < VALUES; i++) {
        if (i == VALUES / 2)
            sigprocmask(SIG_BLOCK, &set, NULL);
        must(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0, "sigqueue");
    }
    sigpending(&pending);
    printf("queued: %u before, pending %d\n", values, sigismember(&pending, SIGRTMIN));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("queued: %u in all\n", values);
    return 0;
}
