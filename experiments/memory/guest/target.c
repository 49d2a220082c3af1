/* SPDX-License-Identifier: BSD-2-Clause
 *
 * target.c: the program under ptrace(2). Which CR3 is its own only a hypercall from inside of it
 * can tell. So at its entry point, where nothing of it has run, VMCALL and INT3 stand in place of
 * its code for a moment. A program that executes another one gets there again: that one's trace
 * begins anew. Before the end, with its tables still there, the trace is ended from outside.
 */
#define _GNU_SOURCE
#include "target.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hypercall.h"
#include "rings.h"
#include "trace_ring.h"

#define VMCALL_INT3 0xccc1010fULL /* 0f 01 c1, cc */
#define CODE_MASK 0xffffffffULL

static bool stopped_by(int status, int event)
{
    return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | event << 8);
}

static int gone(struct target *target, int status)
{
    target->status = status;
    target->pid = 0;
    target->ended = true;
    return 0;
}

/* It is stopped at an entry point. Executes the hypercall there, and leaves all as it was. */
static int call_inside(struct target *target)
{
    struct user_regs_struct regs, called;
    const struct memory_request *r = &target->request;
    pid_t pid = target->pid;
    int status;

    if (r->mode == MEMTRACE_OFF)
        return 0;
    errno = 0;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0)
        return say("PTRACE_GETREGS: %s", strerror(errno));
    uint64_t code = (uint64_t)ptrace(PTRACE_PEEKTEXT, pid, (void *)regs.rip, NULL);
    if (errno != 0)
        return say("the program's code at its entry point, 0x%llx: %s", regs.rip, strerror(errno));
    called = regs;
    called.rax = HYPERCALL_MEMTRACE;
    called.rbx = r->mode;
    called.rcx = r->first;
    called.rdx = r->bytes;
    called.rsi = r->cr3;
    if (ptrace(PTRACE_POKETEXT, pid, (void *)regs.rip,
               (void *)((code & ~CODE_MASK) | VMCALL_INT3)) != 0 ||
        ptrace(PTRACE_SETREGS, pid, NULL, &called) != 0 ||
        ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid)
        return say("the hypercall at the entry point: %s", strerror(errno));
    if (!WIFSTOPPED(status))
        return gone(target, status);
    if (WSTOPSIG(status) != SIGTRAP || ptrace(PTRACE_GETREGS, pid, NULL, &called) != 0)
        return say("the hypercall at the entry point: signal %d came instead", WSTOPSIG(status));
    if (ptrace(PTRACE_POKETEXT, pid, (void *)regs.rip, (void *)code) != 0 ||
        ptrace(PTRACE_SETREGS, pid, NULL, &regs) != 0)
        return say("the program's code at its entry point: %s", strerror(errno));
    if ((int64_t)called.rax < 0)
        return say("the hypercall gave %ld: %s", (long)called.rax,
                   memory_error((int64_t)called.rax));
    return 0;
}

int target_start(struct target *target, char **command)
{
    int status;

    target->pid = fork();
    if (target->pid == 0) {
        if (!run_on(target->processor) || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(say("%s: %s", command[0], strerror(errno)));
        execvp(command[0], command);
        say("%s: %s", command[0], strerror(errno));
        _exit(127);
    }
    if (target->pid < 0 || waitpid(target->pid, &status, 0) != target->pid)
        return say("%s: %s", command[0], strerror(errno));
    if (!WIFSTOPPED(status)) { /* it has said why */
        gone(target, status);
        return 1;
    }
    if (ptrace(PTRACE_SETOPTIONS, target->pid, NULL,
               (void *)(PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL)) != 0)
        return say("PTRACE_SETOPTIONS: %s", strerror(errno));
    return call_inside(target);
}

int target_go(struct target *target)
{
    if (target->pid != 0 && ptrace(PTRACE_CONT, target->pid, NULL, NULL) != 0)
        return say("PTRACE_CONT: %s", strerror(errno));
    return 0;
}

int target_look(struct target *target)
{
    int status, signal = 0;
    pid_t found = waitpid(target->pid, &status, WNOHANG);

    if (found == 0)
        return 0;
    if (found < 0)
        return say("waitpid: %s", strerror(errno));
    if (!WIFSTOPPED(status))
        return gone(target, status);
    if (stopped_by(status, PTRACE_EVENT_EXIT)) {
        target->ended = true;
        return 0;
    }
    if (stopped_by(status, PTRACE_EVENT_EXEC)) {
        if (call_inside(target) != 0)
            return 1;
    } else {
        signal = WSTOPSIG(status);
    }
    if (target->pid != 0 && ptrace(PTRACE_CONT, target->pid, NULL, (void *)(intptr_t)signal) != 0)
        return say("PTRACE_CONT: %s", strerror(errno));
    return 0;
}

void target_wait(struct target *target)
{
    int status;

    while (target->pid != 0) {
        (void)ptrace(PTRACE_CONT, target->pid, NULL, NULL); /* where it is stopped */
        if (waitpid(target->pid, &status, 0) != target->pid)
            return;
        if (!WIFSTOPPED(status))
            (void)gone(target, status);
    }
}
