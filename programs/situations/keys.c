/* SPDX-License-Identifier: BSD-2-Clause
 * keys.c: the job `keys`: protection keys. Each right of a key against each kind of access: a load,
 * a store, CPUID fetched from the page, and the kernel's own load and store for a system call. Each
 * access comes with and without a CPUID before it, so that PKRU has lived through a VM exit. Then
 * two processes with rights of their own take turns, with exits between.
 * Prints what each access gave. SDM Vol. 3, "Protection Keys"; Linux, Documentation/core-api/
 * protection-keys.rst.
 */
#define _GNU_SOURCE
#include "../payload/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096ul
#define TURNS 200
#define LEAF_FEATURES 7

static sigjmp_buf back;
static volatile int fault_code;
static volatile unsigned fault_key;
static unsigned handler_rights;
static uint8_t *page;
static int pipes[2];

static unsigned rights_now(void)
{
    unsigned rights, zero;

    __asm__ volatile("rdpkru" : "=a"(rights), "=d"(zero) : "c"(0));
    return rights;
}

static void take_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    fault_code = info->si_code;
    fault_key = info->si_code == SEGV_PKUERR ? info->si_pkey : 0;
    handler_rights = rights_now();
    siglongjmp(back, 1);
}

static int load(void) { return *(volatile uint8_t *)page; }

static int store(void)
{
    *(volatile uint8_t *)page = 0x0f;
    return 0;
}

/* CPUID and RET lie in the page. Keys do not restrict fetches, so CPUID exits from a page that
 * cannot be read. */
static int fetch(void)
{
    unsigned eax = 0, ebx, ecx = 0, edx;

    __asm__ volatile("call *%[code]"
                     : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx)
                     : [code] "r"(page)
                     : "memory");
    return (int)(ebx & 0xff);
}

static int kernel_load(void) { return write(pipes[1], page, 1) == 1 ? 0 : errno; }

static int kernel_store(void)
{
    char byte = 0x0f;

    if (write(pipes[1], &byte, 1) != 1 || read(pipes[0], page, 1) == 1)
        return 0;
    int error = errno;

    return read(pipes[0], &byte, 1) == 1 ? error : -1;
}

static const struct {
    const char *name;
    int (*run)(void);
} accesses[] = {{"load", load},
                {"store", store},
                {"fetch", fetch},
                {"kernel_load", kernel_load},
                {"kernel_store", kernel_store}};

static const struct {
    const char *name;
    unsigned bits;
} rights[] = {{"all", 0}, {"read", PKEY_DISABLE_WRITE}, {"none", PKEY_DISABLE_ACCESS}};

static void access_all(const char *with, int key, bool exits)
{
    for (unsigned r = 0; r < sizeof(rights) / sizeof(rights[0]); r++) {
        for (unsigned a = 0; a < sizeof(accesses) / sizeof(accesses[0]); a++) {
            volatile int result = -1;

            pkey_set(key, rights[r].bits);
            fault_code = 0;
            fault_key = handler_rights = 0;
            if (exits)
                cpuid(0, 0);
            if (sigsetjmp(back, 1) == 0)
                result = accesses[a].run();
            printf("keys: with=%s rights=%s access=%s exits=%d result=%d code=%d key=%u "
                   "handler=%#x now=%#x\n",
                   with, rights[r].name, accesses[a].name, exits, result, fault_code, fault_key,
                   handler_rights, rights_now());
        }
    }
}

/* Two processes with other rights, each of which finds its own after each exit and each turn. */
static int take_turns(int key)
{
    unsigned wrong = 0;
    pid_t child = fork();
    unsigned own;
    int status = 1;

    pkey_set(key, child == 0 ? PKEY_DISABLE_WRITE : PKEY_DISABLE_ACCESS);
    own = rights_now();
    for (int i = 0; i < TURNS; i++) {
        cpuid(LEAF_FEATURES, 0);
        wrong += rights_now() != own;
        sched_yield();
        wrong += rights_now() != own;
    }
    if (child == 0)
        _exit(wrong != 0);
    waitpid(child, &status, 0);
    printf("keys: turns=%d wrong=%u child=%d\n", TURNS, wrong, status);
    return wrong != 0 || status != 0;
}

int main(void)
{
    static const uint8_t code[] = {0x0f, 0xa2, 0xc3}; /* cpuid; ret */
    struct sigaction action = {.sa_sigaction = take_fault, .sa_flags = SA_SIGINFO};
    int key = pkey_alloc(0, 0), only;

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (key < 0 || page == MAP_FAILED || pipe(pipes) != 0) {
        printf("keys: error=\"%s\" features=%#x\n", strerror(errno), cpuid(LEAF_FEATURES, 0).ecx);
        return 1;
    }
    sigaction(SIGSEGV, &action, NULL);
    memcpy(page, code, sizeof(code));
    printf("keys: key=%d features=%#x\n", key, cpuid(LEAF_FEATURES, 0).ecx & 0x18);
    pkey_mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, key);
    access_all("key", key, false);
    access_all("key", key, true);
    only = take_turns(key);
    pkey_set(key, 0);
    /* Execute-only memory: Linux takes a key of its own. */
    mprotect(page, PAGE_BYTES, PROT_EXEC);
    access_all("execute_only", key, true);
    return only;
}
