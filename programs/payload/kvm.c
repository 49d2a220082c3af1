/* SPDX-License-Identifier: BSD-2-Clause
 * kvm.c: the job `kvm`: loads this kernel's own KVM and starts a guest under it with the launcher
 * (programs/kvm/): the test kernel, for which pmv.tests=TESTS says what it runs, or with
 * pmv.kvm=JOBS Linux, whose init runs these jobs and finds all other words of this kernel's command
 * line on its own; pmv.inner_mitigations=WORD is its mitigations=, where that is not this kernel's.
 * pmv.kvm=kvm runs this job in the guest, whose guest is the test kernel; pmv.kvm=kvm+JOBS runs
 * these jobs in the guest's guest, and so on. pmv.kvm_cpus=N gives the guest N processors;
 * pmv.apicv=0 leaves APIC virtualization out, pmv.ept=0 EPT, pmv.mediated=1 mediates the vPMU,
 * pmv.pt_mode=1 asks for Intel PT in the guest; pmv.kvm_around=NAME runs the image's program
 * /jobs/NAME with the word `begin` once KVM is there, and with `end` after the guest. With nox2apic
 * the guest's local APIC is in xAPIC mode, whatever the guest is. Only kvm-FLAVOUR.img or
 * kvm-NAME-FLAVOUR.img have what it takes.
 * pmv.kvm_machines=N,N,... runs several Linux guests at once: the first number is how many this
 * kernel runs, the next one how many its first guest runs, and so on. The first guest of each
 * kernel runs what pmv.kvm= says, the others only its innermost jobs. Each guest finds its place in
 * pmv.machine=, 2.1 for the first guest of the second one; its lines of the console begin with
 * that. pmv.kvm_pin=CPU,CPU,... names the processor of each of this kernel's guests.
 * pmv.kvm_memory=MIB is the memory of an innermost one. Linux,
 * Documentation/admin-guide/kernel-parameters.txt, "kvm", "reboot=".
 */
#define _GNU_SOURCE
#include "payload.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHER "/launch"
#define TEST_KERNEL "/kernel.bzImage"
#define LINUX_KERNEL "/kvm/vmlinuz"
#define LINUX_INITRD "/kvm/initrd"
#define MACHINES_MAX 16u
#define WORD_MAX 512
#define LINE_MAX_LENGTH 2048
#define TEST_KERNEL_MEMORY "256" /* MiB */
#define LINUX_MEMORY "512"       /* as the other columns have it */
#define ITSELF "kvm"
/* Linux goes to x2APIC mode itself; without ACPI tables it cannot find itself there. */
#define LINUX_APIC "xapic"
#define XAPIC_WORD "nox2apic"
/* There is no ACPI to say how the machine ends; this takes the reset port, which the launcher has.
 * It has no clock with a date, for which the driver would wait a second. The host's own init may be
 * another. */
#define LINUX_WORDS "rdinit=/init pmv.end=reboot reboot=pci initcall_blacklist=cmos_init"
/* Seconds, pmv.seconds= has others. In the emulator one is some minutes of real time, where whoever
 * started the machine has a limit of his own. */
#define TIME_LIMIT "900"

/* In the order of their dependencies. Without parameters of the last KVM is as it is by default. */
static const char *const modules[] = {"irqbypass", "kvm", "kvm-intel"};

static const char *const settings[] = {
    "kvm/parameters/enable_pmu",
    "kvm/parameters/halt_poll_ns",
    "kvm_intel/parameters/enable_apicv",
    "kvm_intel/parameters/flexpriority",
    "kvm_intel/parameters/ept",
    "kvm_intel/parameters/vpid",
    "kvm_intel/parameters/unrestricted_guest",
    "kvm_intel/parameters/vmentry_l1d_flush",
    "kvm_intel/parameters/nested",
    "kvm_intel/parameters/enable_mediated_pmu",
    "kvm_intel/parameters/pt_mode",
};

static void print_word(const char *key, const char *path)
{
    const char *text = read_text(path);

    printf(" %s=%.*s", key, text == NULL ? 1 : (int)strcspn(text, "\n"), text == NULL ? "-" : text);
}

/* What a figure of this column depends on, in one line. */
static void print_settings(void)
{
    struct utsname name;
    char path[128];

    uname(&name);
    printf("kvm: release=%s", name.release);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        snprintf(path, sizeof(path), "/sys/module/%s", settings[i]);
        print_word(strrchr(settings[i], '/') + 1, path);
    }
    print_word("nmi_watchdog", "/proc/sys/kernel/nmi_watchdog");
    print_word("perf_event_max_sample_rate", "/proc/sys/kernel/perf_event_max_sample_rate");
    print_word("perf_cpu_time_max_percent", "/proc/sys/kernel/perf_cpu_time_max_percent");
    printf("\n");
}

static int run_around(char *when)
{
    char name[WORD_MAX], path[WORD_MAX + sizeof("/jobs/")];
    char *const arguments[] = {path, when, NULL};

    command_line_word("pmv.kvm_around", "", name, sizeof(name));
    snprintf(path, sizeof(path), "/jobs/%s", name);
    return *name == '\0' ? 0 : run_program(NULL, arguments);
}

/* The test kernel takes the mode that it finds; Linux takes the word itself. */
static const char *test_kernel_apic(void)
{
    char line[LINE_MAX_LENGTH], *rest = line;

    command_line_text(line, sizeof(line));
    for (char *word; (word = next_word(&rest, " ")) != NULL;)
        if (strcmp(word, XAPIC_WORD) == 0)
            return "xapic";
    return "x2apic";
}

static int launch_test_kernel(char *cpus, char *seconds)
{
    char tests[WORD_MAX], append[WORD_MAX + sizeof("tests=")], apic[sizeof("x2apic")];
    char *const arguments[] = {LAUNCHER,   "--kernel",         TEST_KERNEL, "--append", append,
                               "--memory", TEST_KERNEL_MEMORY, "--apic",    apic,       "--cpus",
                               cpus,       "--timeout",        seconds,     NULL};

    snprintf(apic, sizeof(apic), "%s", test_kernel_apic());
    command_line_word("pmv.tests", "", tests, sizeof(tests));
    snprintf(append, sizeof(append), "%s%s", *tests != '\0' ? "tests=" : "", tests);
    return run_program(NULL, arguments);
}

/* The number at `place` of a list N,N,...; after its end `fallback`. */
static unsigned long number_of(const char *list, unsigned place, unsigned long fallback)
{
    for (; place > 0 && list != NULL; place--) {
        list = strchr(list, ',');
        list += list != NULL;
    }
    return list == NULL || *list == '\0' ? fallback : strtoul(list, NULL, 10);
}

/* Whether a list N,N,... has that length, and numbers alone. */
static bool is_list_of(const char *list, unsigned long length)
{
    for (; length > 0; length--) {
        const size_t digits = strspn(list, "0123456789");

        if (digits == 0 || list[digits] != (length > 1 ? ',' : '\0'))
            return false;
        list += digits + 1;
    }
    return true;
}

/* Where the jobs are `kvm` or `kvm+JOBS`: what that guest's guest runs. NULL: they are others. */
static const char *deeper_than(const char *jobs)
{
    size_t length = strlen(ITSELF);

    if (strncmp(jobs, ITSELF, length) != 0 || (jobs[length] != '\0' && jobs[length] != '+'))
        return NULL;
    return jobs + length + (jobs[length] == '+');
}

/* Each machine has room for those in it, and as much for itself as the first of them has. */
static unsigned long memory_of(const char *jobs, const char *machines, unsigned long innermost)
{
    const char *deeper = deeper_than(jobs);
    unsigned long count = number_of(machines, 1, 1);

    if (deeper == NULL || *deeper == '\0')
        return innermost;
    machines = strchr(machines, ',');
    return 2 * memory_of(deeper, machines == NULL ? "" : machines + 1, innermost) +
           (count - 1) * innermost;
}

/* Of a word that is there twice, the last counts. The emulator's words are in the line, and not the
 * guest's to ask for. `place` is the guest's own pmv.machine=, or empty for an only one. */
static int launch_linux(const char *jobs, char *cpus, char *seconds, const char *machines,
                        char *place)
{
    char line[LINE_MAX_LENGTH], append[3 * LINE_MAX_LENGTH], mitigations[WORD_MAX],
        memory[WORD_MAX];
    const char *deeper = deeper_than(jobs), *rest = strchr(machines, ',');
    char *const arguments[] = {LAUNCHER,     "--kernel",  LINUX_KERNEL, "--initrd",
                               LINUX_INITRD, "--append",  append,       "--memory",
                               memory,       "--apic",    LINUX_APIC,   "--cpus",
                               cpus,         "--timeout", seconds,      *place ? "--name" : NULL,
                               place,        NULL};

    command_line_word("pmv.kvm_memory", LINUX_MEMORY, memory, sizeof(memory));
    snprintf(memory, sizeof(memory), "%lu", memory_of(jobs, machines, strtoul(memory, NULL, 10)));
    command_line_word("pmv.inner_mitigations", "", mitigations, sizeof(mitigations));
    command_line_text(line, sizeof(line));
    snprintf(append, sizeof(append), "%s " LINUX_WORDS "%s%s pmv.words=none pmv.run=%s%s%s", line,
             *mitigations != '\0' ? " mitigations=" : "", mitigations,
             deeper != NULL ? ITSELF : jobs, deeper != NULL ? " pmv.kvm=" : "",
             deeper != NULL ? deeper : "");
    if (*place != '\0')
        snprintf(append + strlen(append), sizeof(append) - strlen(append),
                 " pmv.machine=%s pmv.kvm_machines=%s pmv.kvm_pin=", place,
                 rest == NULL ? "" : rest + 1);
    return run_program(NULL, arguments);
}

/* Each of the guests from a process of its own. 0, or the status of one that failed. */
static int launch_machines(const char *jobs, char *cpus, char *seconds, const char *machines)
{
    const unsigned long count = number_of(machines, 0, 1);
    char path[WORD_MAX], pin[WORD_MAX];
    pid_t children[MACHINES_MAX] = {0};
    const char *innermost = jobs;
    int worst = 0;

    if (count == 0 || count > MACHINES_MAX)
        return fail_job("kvm", "pmv.kvm_machines", EINVAL);
    for (const char *deeper; (deeper = deeper_than(innermost)) != NULL && *deeper != '\0';)
        innermost = deeper;
    command_line_word("pmv.machine", "", path, sizeof(path));
    command_line_word("pmv.kvm_pin", "", pin, sizeof(pin));
    if (*pin != '\0' && !is_list_of(pin, count))
        return fail_job("kvm", "pmv.kvm_pin", EINVAL);
    fflush(stdout);
    for (unsigned i = 0; i < count; i++) {
        char place[WORD_MAX + 16];
        cpu_set_t one;

        children[i] = fork();
        if (children[i] < 0)
            return fail_job("kvm", "fork", errno);
        if (children[i] > 0)
            continue;
        snprintf(place, sizeof(place), "%s%s%u", path, *path != '\0' ? "." : "", i + 1);
        CPU_ZERO(&one);
        CPU_SET(number_of(pin, i, 0), &one);
        if (*pin != '\0' && sched_setaffinity(0, sizeof(one), &one) != 0)
            _exit(fail_job("kvm", "pmv.kvm_pin", errno));
        _exit(launch_linux(i == 0 ? jobs : innermost, cpus, seconds, machines, place));
    }
    for (unsigned i = 0; i < count; i++) {
        int status = -1;

        if (waitpid(children[i], &status, 0) != children[i] || status != 0)
            worst = WIFEXITED(status) && status != 0 ? WEXITSTATUS(status) : 1;
    }
    return worst;
}

/* Of kvm-intel: without APIC virtualization, without EPT, with the mediated vPMU, with Intel PT. */
static void set_parameters(char *text, size_t size)
{
    char apicv[WORD_MAX], ept[WORD_MAX], mediated[WORD_MAX], pt_mode[WORD_MAX];

    command_line_word("pmv.apicv", "", apicv, sizeof(apicv));
    command_line_word("pmv.ept", "", ept, sizeof(ept));
    command_line_word("pmv.mediated", "", mediated, sizeof(mediated));
    command_line_word("pmv.pt_mode", "", pt_mode, sizeof(pt_mode));
    snprintf(text, size, "%s%s%s%s", strcmp(apicv, "0") == 0 ? "enable_apicv=0 " : "",
             strcmp(ept, "0") == 0 ? "ept=0 " : "",
             strcmp(mediated, "1") == 0 ? "enable_mediated_pmu=1 " : "",
             strcmp(pt_mode, "1") == 0 ? "pt_mode=1" : "");
}

JOB(kvm)
{
    const size_t count = sizeof(modules) / sizeof(modules[0]);
    char jobs[WORD_MAX], cpus[WORD_MAX], seconds[WORD_MAX], parameters[WORD_MAX],
        machines[WORD_MAX];
    const char *kernel;
    int status;

    command_line_word("pmv.kvm", "", jobs, sizeof(jobs));
    command_line_word("pmv.kvm_cpus", "1", cpus, sizeof(cpus));
    command_line_word("pmv.kvm_machines", "", machines, sizeof(machines));
    command_line_word("pmv.seconds", TIME_LIMIT, seconds, sizeof(seconds));
    kernel = *jobs != '\0' ? LINUX_KERNEL : TEST_KERNEL;
    if (access(LAUNCHER, X_OK) != 0 || access(kernel, R_OK) != 0) {
        printf("kvm: error=\"no " LAUNCHER " or no %s in this initramfs; make one with "
               "make build/payload/kvm%s-cloud.img\"\n",
               kernel, *jobs != '\0' ? "-bench" : "");
        return 1;
    }
    set_parameters(parameters, sizeof(parameters));
    for (size_t i = 0; i < count; i++) {
        int error = load_module_with(modules[i], i == count - 1 ? parameters : "");

        /* Without a file the kernel has it built in: the launcher looks for KVM itself. */
        if (error != 0 && error != -ENOENT)
            printf("kvm: module=%s load=\"%s\"\n", modules[i], strerror(-error));
    }
    perf_lift_limits();
    print_settings();
    if (run_around("begin") != 0)
        return 1;
    if (*jobs == '\0')
        status = launch_test_kernel(cpus, seconds);
    else if (*machines == '\0')
        status = launch_linux(jobs, cpus, seconds, "", "");
    else
        status = launch_machines(jobs, cpus, seconds, machines);
    run_around("end");
    printf("kvm: launcher_status=%d\n", status);
    return status;
}
