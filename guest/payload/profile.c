/* SPDX-License-Identifier: BSD-2-Clause
 * profile.c: the job `profile`: Debian's own perf samples the thesis's Listing 2 with call chains
 * and a fixed period, and reports the share of each function. Thesis, section 4.3 and Table 4.4.
 * The kernel command line gives pmv.iter= (ITER of Listing 2) and pmv.period= (cycles a sample).
 * Only the larger initramfs has perf. The job `nmilog` prints what the kernel has complained of.
 */
#include "payload.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERF "/usr/bin/perf"
#define DATA "/perf.data"
#define REPORT "/perf.report"
#define WORD_MAX 32
#define LINES_MAX 40
/*
 * 40 instructions and cycles for each of ITER: 20,071 samples. A shorter period would meet perf's
 * limit of samples in a timer tick, because Linux takes the emulator's processor for a faster one.
 */
#define DEFAULT_ITER "25100000"
#define DEFAULT_PERIOD "50021"

/* Runs the command with its stdout in a file; its exit status, or -1. */
static int run(char *const command[], const char *output)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execv(command[0], command);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void print_file(const char *name, const char *path)
{
    char *text = read_text(path), *rest = NULL;
    int lines = 0;

    for (char *line = text == NULL ? NULL : strtok_r(text, "\n", &rest);
         line != NULL && lines < LINES_MAX; line = strtok_r(NULL, "\n", &rest), lines++) {
        printf("%s: %s\n", name, line);
    }
}

int job_profile(void)
{
    char iter[WORD_MAX], period[WORD_MAX];
    char *record[] = {PERF, "record", "-g", "-e", "cycles:u", "-c", period, "-o", DATA, "--",
                      "/listing2", iter, NULL};
    char *report[] = {PERF, "report", "-i", DATA, "--stdio", "--children", "-g", "none",
                      "--percent-limit", "0", "-F", "overhead_children,overhead,sample,symbol",
                      NULL};
    char *stats[] = {PERF, "report", "-i", DATA, "--stats", NULL};
    int recorded, reported;

    if (access(PERF, X_OK) != 0) {
        printf("profile: error=\"no " PERF " in this initramfs\"\n");
        return 1;
    }
    command_line_word("pmv.iter", DEFAULT_ITER, iter, sizeof(iter));
    command_line_word("pmv.period", DEFAULT_PERIOD, period, sizeof(period));
    recorded = run(record, REPORT);
    print_file("profile-record", REPORT);
    reported = run(report, REPORT);
    print_file("profile-report", REPORT);
    run(stats, REPORT);
    print_file("profile-stats", REPORT);
    printf("profile: iter=%s period=%s record=%d report=%d\n", iter, period, recorded, reported);
    return recorded != 0 || reported != 0;
}

int job_nmilog(void)
{
    static const char *const words[] = {"Uhhuh", "unknown reason", "Dazed and confused",
                                        "took too long", "LOCKUP", "lockup"};

    printf("nmilog: lines=%d\n",
           print_kernel_log("nmilog", words, sizeof(words) / sizeof(words[0])));
    return 0;
}
