/* SPDX-License-Identifier: BSD-2-Clause
 * ktrace.c: the program `ktrace`, for the job kvm's word pmv.kvm_around=: this kernel's own trace
 * of its KVM, for a guest that it runs: tracefs' events, with the processor's TSC for a clock,
 * while the guest is between the two CPUID leaves of the job `pair`. With pmv.ktrace=sched the
 * scheduler's events alone, as long as there are guests, and not on the console: the emulator gets
 * the file sched, or sched-N of the machine N (pmv.machine=). With the word `time` it prints the
 * time of a tick, and nothing else. Linux,
 * Documentation/trace/ftrace.rst, events.rst ("traceon"), kprobetrace.rst.
 */
#include "hand_over.h"
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"
#define WORD_MAX 512
#define PIECE (64 * 1024)
/* For each processor; what is full drops what comes later, and says so in its `overrun` lines. */
#define BUFFER_KB "8192"

/* The leaves of pair.c. */
#define BEGINS "function == 0x70616972"
#define ENDS "function == 0x70616973"

struct setting {
    const char *file, *text;
};

static const struct setting common[] = {
    {"trace_clock", "x86-tsc"},
    {"options/overwrite", "0"},
    {"options/record-cmd", "1"},
    {"buffer_size_kb", BUFFER_KB},
    {"tracing_on", "0"},
    {"events/sched/sched_switch/enable", "1"},
    {"events/sched/sched_wakeup/enable", "1"},
};
static const struct setting of_sched[] = {
    {"tracing_on", "1"},
};
static const struct setting of_pair[] = {
    {"events/kvm/kvm_cpuid/filter", BEGINS " || " ENDS},
    {"events/kvm/kvm_cpuid/enable", "1"},
    {"events/kvm/kvm_cpuid/trigger", "traceon if " BEGINS},
    /* An event takes one trigger of traceon and traceoff, and any number of these. */
    {"events/kvm/kvm_cpuid/trigger", "disable_event:kvm:kvm_entry if " ENDS},
    {"events/kvm/kvm_cpuid/trigger", "disable_event:kvm:kvm_exit if " ENDS},
    {"events/kvm/kvm_cpuid/trigger", "disable_event:kvm:kvm_cr if " ENDS},
    {"events/kvm/kvm_cpuid/trigger", "disable_event:kvm:kvm_inj_virq if " ENDS},
    {"events/kvm/kvm_cpuid/trigger", "disable_event:sched:sched_switch if " ENDS},
    {"events/kvm/kvm_cpuid/trigger", "disable_event:sched:sched_wakeup if " ENDS},
    {"events/kvm/kvm_cr/enable", "1"},
    {"events/kvm/kvm_entry/enable", "1"},
    {"events/kvm/kvm_exit/enable", "1"},
    {"events/kvm/kvm_inj_virq/enable", "1"},
};

static bool set(const char *file, const char *text)
{
    char path[WORD_MAX];
    int error;

    snprintf(path, sizeof(path), TRACEFS "/%s", file);
    error = write_text(path, text);
    if (error != 0)
        printf("ktrace: file=%s text=\"%s\" error=\"%s\"\n", file, text, strerror(-error));
    return error == 0;
}

/* pmv.ktrace_probe=: kprobe events, with a comma for each blank and a semicolon between two. */
static bool set_probes(void)
{
    char probes[WORD_MAX], file[WORD_MAX + 64], trigger[WORD_MAX + 64];
    char *rest = NULL;

    command_line_word("pmv.ktrace_probe", "", probes, sizeof(probes));
    for (char *one = strtok_r(probes, ";", &rest); one != NULL; one = strtok_r(NULL, ";", &rest)) {
        char *name = strchr(one, ':');
        size_t length;

        if (name == NULL) {
            printf("ktrace: error=\"found the probe '%s', wanted p:NAME,...\"\n", one);
            return false;
        }
        name++;
        for (char *c = one; *c != '\0'; c++)
            *c = *c == ',' ? ' ' : *c;
        length = strcspn(name, " ");
        if (!set("kprobe_events", one))
            return false;
        snprintf(file, sizeof(file), "events/kprobes/%.*s/enable", (int)length, name);
        snprintf(trigger, sizeof(trigger), "disable_event:kprobes:%.*s if " ENDS, (int)length,
                 name);
        if (!set(file, "1") || !set("events/kvm/kvm_cpuid/trigger", trigger))
            return false;
    }
    return true;
}

static bool set_all(const struct setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!set(settings[i].file, settings[i].text))
            return false;
    return true;
}
#define SET_ALL(settings) set_all(settings, sizeof(settings) / sizeof((settings)[0]))

static bool sched_alone(void)
{
    char word[WORD_MAX];

    command_line_word("pmv.ktrace", "", word, sizeof(word));
    return strcmp(word, "sched") == 0;
}

static void print_time(void)
{
    struct timespec now;
    uint64_t tick = time_stamp();

    clock_gettime(CLOCK_REALTIME, &now);
    printf("ktrace: tick=%llu us=%llu\n", (unsigned long long)tick,
           (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
}

static bool start(void)
{
    if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) != 0 && errno != EBUSY) {
        printf("ktrace: error=\"no tracefs: %s\"\n", strerror(errno));
        return false;
    }
    if (!SET_ALL(common))
        return false;
    return sched_alone() ? SET_ALL(of_sched) : SET_ALL(of_pair) && set_probes();
}

static bool hand_over(void)
{
    char place[WORD_MAX], name[WORD_MAX + sizeof("sched-")];

    command_line_word("pmv.machine", "", place, sizeof(place));
    snprintf(name, sizeof(name), "sched%s%s", *place != '\0' ? "-" : "", place);
    return set("tracing_on", "0") && hand_over_file(name, TRACEFS "/trace");
}

static void print(void)
{
    static char piece[PIECE];
    ssize_t n;
    int fd;

    set("tracing_on", "0");
    fd = open(TRACEFS "/trace", O_RDONLY | O_CLOEXEC);
    printf("ktrace: begin\n");
    fflush(stdout);
    while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0) {
        for (ssize_t done = 0, more; done < n; done += more) {
            more = write(STDOUT_FILENO, piece + done, (size_t)(n - done));
            if (more <= 0)
                break;
        }
    }
    tcdrain(STDOUT_FILENO);
    if (fd >= 0)
        close(fd);
    printf("ktrace: end\n");
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "begin") == 0)
        return start() ? 0 : 1;
    if (argc == 2 && strcmp(argv[1], "end") == 0) {
        if (sched_alone())
            return hand_over() ? 0 : 1;
        print();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "time") == 0) {
        print_time();
        return 0;
    }
    fprintf(stderr, "usage: ktrace begin|end|time\n");
    return 2;
}
