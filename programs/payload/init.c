/* SPDX-License-Identifier: BSD-2-Clause
 * init.c: PID 1 of the guest's initramfs: runs the jobs that the kernel command line names and ends
 * the machine. Words: pmv.run=a1,report (the jobs, in order), pmv.end=poweroff|reboot|stay,
 * pmv.delay_us=N (the time that init waits before the jobs). A job without a JOB() is a program of
 * the image's: /jobs/NAME.
 * With pmv.words=emulator more words come from the emulator (testbed/README.md, "Words"), and count
 * as if they stood at the end of that line, for all jobs. Started by another program than the
 * kernel, it runs the jobs that its arguments name; words may then be in the environment, too, and
 * win.
 */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define WORD_MAX 512
#define WORDS_SIZE 2048 /* testbed/run.sh gives no more */
#define MARKER_WORDS 6u
#define DEFAULT_JOBS "a1,report"
#define DEFAULT_END "poweroff"
#define NO_DELAY "0"
#define JOBS_FOLDER "/jobs/"

/* What JOB() has put into the section, by the linker. */
extern const struct job __start_jobs[], __stop_jobs[];

uint64_t init_started;

static void mount_all(void)
{
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/dev", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
}

/* stdin, stdout and stderr on the console, also where the initramfs had no /dev/console. */
static void open_console(void)
{
    int fd = open("/dev/console", O_RDWR);

    if (fd < 0)
        return;
    for (int i = 0; i <= STDERR_FILENO; i++)
        dup2(fd, i);
    if (fd > STDERR_FILENO)
        close(fd);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Before anything that depends on words: where runs differ in them alone, the emulator goes on from
 * here for each. Elsewhere the marker does nothing, and leaves the size. */
static void take_words(void)
{
    static char words[WORDS_SIZE];
    uint64_t length = sizeof(words);
    char source[WORD_MAX];

    command_line_word("pmv.words", "", source, sizeof(source));
    if (strcmp(source, "emulator") != 0)
        return;
    __asm__ volatile("xchg %%bx, %%bx" : "+a"(length) : "c"(MARKER_WORDS), "d"(words) : "memory");
    if (length > 0 && length < sizeof(words))
        setenv(COMMAND_LINE_WORDS, words, 1);
}

/* A job that is a program of the image's. -1: there is none. */
static int run_file(const char *name)
{
    char path[sizeof(JOBS_FOLDER) + WORD_MAX];

    snprintf(path, sizeof(path), JOBS_FOLDER "%s", name);
    return access(path, X_OK) != 0 ? -1 : run_program(NULL, (char *const[]){path, NULL});
}

/* 0 when the job passed. Each job's end is a line of its own, so that a driver can wait for it. */
static int run_job(const char *name)
{
    const struct job *job = __start_jobs;
    int status;

    while (job < __stop_jobs && strcmp(job->name, name) != 0)
        job++;
    status = job < __stop_jobs ? job->run() : run_file(name);
    if (status >= 0) {
        printf("job: name=%s status=%d\n", name, status);
        return status;
    }
    printf("job: name=%s status=127 error=\"no such job; wanted a program in " JOBS_FOLDER
           " or one of",
           name);
    for (job = __start_jobs; job < __stop_jobs; job++)
        printf(" %s", job->name);
    printf("\"\n");
    return 1;
}

static void end_machine(const char *how)
{
    fflush(stdout);
    /* The last characters are still in the UART's FIFO when the machine goes down. */
    tcdrain(STDOUT_FILENO);
    usleep(20000);
    sync();
    if (strcmp(how, "stay") == 0)
        for (;;)
            pause();
    reboot(strcmp(how, "reboot") == 0 ? RB_AUTOBOOT : RB_POWER_OFF);
}

int main(int argc, char *argv[])
{
    char run[WORD_MAX], how[WORD_MAX], delay[WORD_MAX];
    char *rest = run;
    int failed = 0;

    if (getpid() != 1) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        for (int i = 1; i < argc; i++)
            failed |= run_job(argv[i]);
        return failed != 0;
    }
    region_begin(REGION_USER);
    init_started = time_stamp();
    mount_all();
    open_console();
    take_words();
    command_line_word("pmv.run", DEFAULT_JOBS, run, sizeof(run));
    command_line_word("pmv.end", DEFAULT_END, how, sizeof(how));
    command_line_word("pmv.delay_us", NO_DELAY, delay, sizeof(delay));
    if (strcmp(delay, NO_DELAY) != 0)
        usleep((useconds_t)strtoul(delay, NULL, 10));
    for (char *name; (name = next_word(&rest, ",")) != NULL;)
        failed |= run_job(name);
    printf("init: done failed=%d end=%s\n", failed, how);
    end_machine(how);
    /* Linux panics when PID 1 returns; a power-off that did not happen must not look like that. */
    printf("init: error=\"the machine did not %s: %s\"\n", how, strerror(errno));
    for (;;)
        pause();
}
