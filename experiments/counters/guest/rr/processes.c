/* SPDX-License-Identifier: BSD-2-Clause
 *
 * processes.c: fork: children that compute and answer through a pipe; exec: itself, again and
 * again; spawn: another program, by posix_spawn(), and one by a shell.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 4

extern char **environ;

int run_fork(void)
{
    uint32_t sum = 0, order = 0;
    int pipes[2];

    must(pipe(pipes) == 0, "pipe");
    for (uint32_t i = 0; i < CHILDREN; i++) {
        pid_t child = fork();

        must(child >= 0, "fork");
        if (child == 0) {
            uint32_t answer[2] = {i, work(i + 1, 20000)};

            must(write(pipes[1], answer, sizeof(answer)) == sizeof(answer), "write");
            _exit((int)i);
        }
        varies("child %u is %d", i, child);
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        uint32_t answer[2];

        must(read(pipes[0], answer, sizeof(answer)) == sizeof(answer), "read");
        sum += answer[1];
        order = order * 31 + answer[0];
    }
    for (unsigned i = 0, codes = 0; i < CHILDREN; i++) {
        int status;

        must(wait(&status) > 0, "wait");
        codes += (unsigned)WEXITSTATUS(status);
        if (i == CHILDREN - 1)
            printf("fork: sum %u, exit codes %u\n", sum, codes);
    }
    varies("order %u", order);
    return 0;
}

int run_exec(void)
{
    unsigned left = words[0] != NULL ? (unsigned)strtoul(words[0], NULL, 10) : 3;
    char text[16];

    printf("exec: %u left, sum %u\n", left, work(left, 5000));
    if (left == 0)
        return 0;
    snprintf(text, sizeof(text), "%u", left - 1);
    execl("/proc/self/exe", "programs", "exec", text, (char *)NULL);
    must(0, "execl");
    return 1;
}

int run_spawn(void)
{
    char *const arguments[] = {"echo", "spawn: from another program", NULL};
    int status;
    pid_t child;

    must(posix_spawn(&child, "/bin/echo", NULL, NULL, arguments, environ) == 0, "posix_spawn");
    must(waitpid(child, &status, 0) == child, "waitpid");
    printf("spawn: status %d\n", WEXITSTATUS(status));
    status = system("echo spawn: a shell; exit 3");
    printf("spawn: status %d\n", WEXITSTATUS(status));
    return 0;
}
