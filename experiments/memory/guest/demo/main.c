/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: the job `memdemo`: a program with its memory accesses traced by memtrace, and
 * what came of it handed over, to the emulator or on the console.
 *
 * Words of the kernel's command line:
 *   pmv.memtrace=--writes   what memtrace is asked for: words with commas between them
 *   pmv.program=matrix      what is traced: of /jobs
 *   pmv.print=0             1: the file goes to the console as text, for QEMU
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command_line.h"
#include "hand_over.h"
#include "print_file.h"

#define TOOL "/jobs/memtrace"
#define TRACE_FILE "/tmp.ptrace"
#define WORDS_MAX 32

static int run(char *wanted, char *program)
{
    char *words[WORDS_MAX] = {TOOL}, *rest = NULL;
    int count = 1, status = -1;

    for (char *w = strtok_r(wanted, ",", &rest); w != NULL && count < WORDS_MAX - 5;
         w = strtok_r(NULL, ",", &rest))
        words[count++] = w;
    words[count++] = "-o";
    words[count++] = TRACE_FILE;
    words[count++] = "--";
    words[count] = program;
    pid_t child = fork();
    if (child == 0) {
        execv(TOOL, words);
        _exit(127);
    }
    (void)waitpid(child, &status, 0);
    return status;
}

int main(void)
{
    char wanted[512], print[8], name[32], program[64];

    command_line_word("pmv.memtrace", "--writes", wanted, sizeof(wanted));
    command_line_word("pmv.print", "0", print, sizeof(print));
    command_line_word("pmv.program", "matrix", name, sizeof(name));
    snprintf(program, sizeof(program), "/jobs/%s", name);
    int status = run(wanted, program);
    printf("memdemo: memtrace=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
    bool good = strcmp(print, "1") == 0 ? print_file("ptrace", TRACE_FILE)
                                        : hand_over_file("ptrace", TRACE_FILE);
    return status != 0 || !good;
}
