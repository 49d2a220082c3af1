/* SPDX-License-Identifier: BSD-2-Clause
 * init.c: PID 1 of the guest's initramfs: runs the jobs that the kernel command line names and ends
 * the machine. Words: pmv.run=a1,report (the jobs, in order), pmv.end=poweroff|reboot|stay. A job
 * that is not in the table below is a program of the image's: /jobs/NAME.
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
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define WORD_MAX 512
#define WORDS_SIZE 2048 /* testbed/run.sh gives no more */
#define MARKER_WORDS 6u
#define DEFAULT_JOBS "a1,report"
#define DEFAULT_END "poweroff"
#define JOBS_FOLDER "/jobs/"

static const struct job jobs[] = {
    {"a1", job_a1},                   /* the A.1 program for each M */
    {"a1again", job_a1again},         /* many marked runs for each M */
    {"a1bench", job_a1bench},         /* the measurement a1: Table 4.2 */
    {"report", job_report},           /* kernel, hypervisor, A.1 table */
    {"cpuinfo", job_cpuinfo},         /* what CPUID and the kernel log say */
    {"cpuid", job_cpuid},             /* a marked run of CPUID instructions */
    {"interrupts", job_interrupts},   /* NMI and PMI lines of /proc/interrupts */
    {"watchdog", job_watchdog},       /* whether the NMI watchdog runs */
    {"perf", job_perf},               /* perf stat of a program of known length */
    {"efivars", job_efivars},         /* read, write, delete EFI variables */
    {"touch", job_touch},             /* touch the hypervisor's memory */
    {"badmsr", job_badmsr},           /* access MSRs that must fault */
    {"log", job_log},                 /* the hypervisor's log */
    {"hosttick", job_hosttick},       /* host work at the next tick */
    {"hostwork", job_hostwork},       /* host work with PMIs of its own */
    {"skid", job_skid},               /* PMIs with an exit around each */
    {"switch", job_switch},           /* PMIs while NMI passthrough goes on and off */
    {"spin", job_spin},               /* a loop without exits of its own */
    {"masking", job_masking},         /* host work while the guest masks its PMI */
    {"nmilog", job_nmilog},           /* the kernel's complaints of NMIs */
    {"kernellog", job_kernellog},     /* the whole kernel log */
    {"sees", job_sees},               /* what Linux has made of the machine */
    {"module", job_module},           /* the module that hands unknown NMIs back */
    {"returned", job_returned},       /* host NMIs that Linux takes */
    {"returnedall", job_returnedall}, /* the same on each processor */
    {"apic", job_apic},               /* a register of the local APIC, by many instructions */
    {"apicbad", job_apicbad},         /* the same by instructions that apic=trap refuses */
    {"smp", job_smp},             /* the processors, the time to init, the kernel's complaints */
    {"a1smp", job_a1smp},         /* the A.1 program on each processor */
    {"pmiall", job_pmiall},       /* PMIs on all processors at once */
    {"switchall", job_switchall}, /* while each switches its NMI passthrough */
    {"watchdogs", job_watchdogs}, /* the NMI watchdog of each processor */
    {"sysrql", job_sysrql},       /* backtraces of all processors */
    {"storm", job_storm},         /* the same while all exit and take PMIs */
    {"moves", job_moves},         /* a counting thread moved by its affinity */
    {"hotplug", job_hotplug},     /* processors off and on again */
    {"hotplug0", job_hotplug0},   /* the first one off and on again */
    {"context_switch", job_context_switch}, /* the measurement of that name */
    {"loops", job_loops},                   /* a program of known length on each processor */
    {"statall", job_statall},               /* perf stat -a */
    {"recordall", job_recordall},           /* perf record -a */
    {"recordbranches", job_recordbranches}, /* perf record -b */
    {"resctrl", job_resctrl},               /* a group with a cache mask of its own */
    {"ptrace", job_ptrace},                 /* a debugger and pieces of code */
    {"kexec", job_kexec}, /* Debian's kernel again, with the jobs pmv.kexec=; does not return */
    {"rebootby", job_rebootby}, /* by what and where the machine is reset later */
    {"lockup", job_lockup},     /* the NMI watchdog panics; returns where it does not */
    {"kdump", job_kdump},       /* an unknown NMI, then a crash kernel with the jobs pmv.kexec= */
    {"panic", job_panic},       /* with all other processors stuck; does not return */
    {"program", job_program},   /* somebody's own, of run-qemu.sh --program */
    {"kvm", job_kvm},           /* the test kernel or Linux under KVM */
};

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
static int run_program(const char *name)
{
    char path[sizeof(JOBS_FOLDER) + WORD_MAX];
    int status = -1;
    pid_t child;

    snprintf(path, sizeof(path), JOBS_FOLDER "%s", name);
    if (access(path, X_OK) != 0)
        return -1;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

/* 0 when the job passed. Each job's end is a line of its own, so that a driver can wait for it. */
static int run_job(const char *name)
{
    int status;

    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        if (strcmp(jobs[i].name, name) != 0)
            continue;
        status = jobs[i].run();
        printf("job: name=%s status=%d\n", name, status);
        return status;
    }
    status = run_program(name);
    if (status >= 0) {
        printf("job: name=%s status=%d\n", name, status);
        return status;
    }
    printf("job: name=%s status=127 error=\"no such job; wanted a program in " JOBS_FOLDER
           " or one of",
           name);
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
        printf(" %s", jobs[i].name);
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
    char run[WORD_MAX], how[WORD_MAX];
    char *rest = NULL;
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
    for (char *name = strtok_r(run, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        failed |= run_job(name);
    printf("init: done failed=%d end=%s\n", failed, how);
    end_machine(how);
    /* Linux panics when PID 1 returns; a power-off that did not happen must not look like that. */
    printf("init: error=\"the machine did not %s: %s\"\n", how, strerror(errno));
    for (;;)
        pause();
}
