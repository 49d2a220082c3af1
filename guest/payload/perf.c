/* SPDX-License-Identifier: BSD-2-Clause
 * perf.c: the job `perf`: Debian's own perf counts the user instructions of /loop, whose number is
 * known. Only the larger initramfs has perf; in the small one the job fails and says so.
 */
#include "payload.h"
#include "smp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERF "/usr/bin/perf"
#define OUTPUT "/perf.out"

int job_perf(void)
{
    static char *const command[] = {PERF, "stat", "-x", ";", "-o", OUTPUT, "-e", "instructions:u",
                                    "/loop", NULL};
    long long counted = -1;
    char *text, *rest = NULL;
    int status = -1;
    pid_t child;

    if (access(PERF, X_OK) != 0) {
        printf("perf: error=\"no " PERF " in this initramfs\"\n");
        return 1;
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execv(PERF, command);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("perf: error=\"cannot start " PERF "\"\n");
        return 1;
    }
    text = read_text(OUTPUT);
    for (char *line = text == NULL ? NULL : strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        printf("perf: output=\"%s\"\n", line);
        if (strstr(line, "instructions:u") != NULL) {
            counted = strtoll(line, NULL, 10);
        }
    }
    printf("perf: status=%d instructions=%lld expected=%lld\n", status, counted, LOOP_INSTRUCTIONS);
    return status != 0 || counted != LOOP_INSTRUCTIONS;
}
