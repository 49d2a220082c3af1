/* SPDX-License-Identifier: BSD-2-Clause
 * perfall.c: the jobs that run Debian's own perf over all processors: perf stat -a -A must count on
 * each, perf record -a must sample each; and perf record -b with the branch records that come with
 * its samples. Only the larger initramfs has perf. What is measured is /init loops: one /loop
 * pinned to each processor.
 */
#include "payload.h"
#include "smp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERF "/usr/bin/perf"
#define COUNTS "/tmp/stat"
#define SAMPLES "/tmp/samples"
#define SCRIPT "/tmp/script"
#define PERIOD "20011"
#define RECORDS 32 /* with each sample */
#define FNV_FIRST 0xcbf29ce484222325ull

/* The lines of a file that have this in them. */
static void print_lines(const char *before, const char *path, const char *with)
{
    char *text = read_text(path);

    for (char *line; (line = next_word(&text, "\n")) != NULL;)
        if (strstr(line, with) != NULL)
            printf("%s%s\n", before, line);
}

/* A checksum that goes on with a text, FNV-1a, up to its second slash: of a branch record both
 * addresses, "0xFROM/0xTO/...", and no cycles. */
static unsigned long long checked(unsigned long long sum, const char *record)
{
    for (int slashes = 0; *record != '\0' && slashes < 2; record++) {
        slashes += *record == '/';
        sum = (sum ^ (unsigned char)*record) * 0x100000001b3ull;
    }
    return sum;
}

JOB(loops)
{
    struct counted c[PROCESSORS_MAX];
    int count = processors_online(), failed = 0;

    for (int cpu = 0; cpu < count; cpu++)
        failed |= counted_make(&c[cpu], cpu) != 0;
    for (int cpu = 0; !failed && cpu < count; cpu++)
        failed |= counted_start(&c[cpu]) != 0;
    for (int cpu = 0; !failed && cpu < count; cpu++) {
        failed |= counted_finish(&c[cpu], false) != 0;
        printf("loops: cpu=%d instructions=%lld expected=%lld branches=%lld\n", cpu,
               c[cpu].instructions, LOOP_INSTRUCTIONS, c[cpu].branches);
        failed |= c[cpu].instructions != LOOP_INSTRUCTIONS;
    }
    return failed;
}

/* The lines of perf stat -x are "CPU2;2000004;;instructions:u;...". */
JOB(statall)
{
    char *const command[] = {PERF, "stat", "-a",    "-A",    "-x", ";", "-e", "instructions:u",
                             "-o", COUNTS, "/init", "loops", NULL};
    int status = run_program("/tmp/stat.out", command), seen = 0;
    char *text = read_text(COUNTS);

    for (char *line; (line = next_word(&text, "\n")) != NULL;) {
        long long counted;
        int cpu;

        if (sscanf(line, "CPU%d;%lld;", &cpu, &counted) == 2) {
            printf("statall: cpu=%d instructions=%lld loop=%lld\n", cpu, counted,
                   LOOP_INSTRUCTIONS);
            seen += counted >= LOOP_INSTRUCTIONS;
        }
    }
    printf("statall: status=%d processors=%d\n", status, seen);
    return status != 0 || seen != processors_online();
}

/* Takes what perf has written of two events, a kind's each: the counts that its lines begin with,
 * or how many lines there are, and the sum of these. */
struct by_kind {
    long long counts[2], lines[2];
    unsigned long long sum;
};
static struct by_kind by_kind(const char *path)
{
    static const char *const kinds[] = {"cpu_core/", "cpu_atom/"};
    struct by_kind found = {.sum = FNV_FIRST};
    char *text = read_text(path);

    for (char *line; (line = next_word(&text, "\n")) != NULL;)
        for (int i = 0; i < 2; i++) {
            if (strstr(line, kinds[i]) == NULL)
                continue;
            found.counts[i] = strtoll(line, NULL, 10);
            found.lines[i]++;
            const char *address = strrchr(line, ' ');
            found.sum = checked(found.sum, address == NULL ? line : address);
        }
    return found;
}

/* What perf makes of a hybrid machine: the PMUs that it lists, its own tests of event names, and on
 * each processor /loop, counted and sampled by PEBS, by both kinds' PMUs. */
JOB(hybrid)
{
    static const char counted[] = "cpu_core/instructions/u,cpu_atom/instructions/u";
    static const char sampled[] = "cpu_core/instructions/upp,cpu_atom/instructions/upp";
    char *const list[] = {PERF, "list", "pmu", NULL};
    char *const test[] = {PERF, "test", "event definition", "hybrid", NULL};
    char *const stat[] = {PERF, "stat", "-x",    ";", "-e", (char *)counted,
                          "-o", COUNTS, "/loop", NULL};
    char *const record[] = {PERF,   "record", "-e",    (char *)sampled, "-c",
                            PERIOD, "-o",     SAMPLES, "/loop",         NULL};
    char *const script[] = {PERF, "script", "-i", SAMPLES, "-F", "event,ip", NULL};
    int failed = perf_lift_limits() != 0 || run_program(SCRIPT, list) != 0;

    print_lines("hybrid: list ", SCRIPT, "/branch-instructions/");
    failed |= run_program(SCRIPT, test);
    print_lines("hybrid: test ", SCRIPT, ":");
    for (int cpu = 0; cpu < processors_online(); cpu++) {
        uint32_t type;
        const char *pmu = hybrid_pmu(cpu, &type);

        failed |= pin(0, cpu) != 0 || run_program("/tmp/stat.out", stat) != 0;
        struct by_kind stats = by_kind(COUNTS);
        failed |= run_program("/tmp/record.out", record) != 0 || run_program(SCRIPT, script) != 0;
        struct by_kind samples = by_kind(SCRIPT);
        printf("hybrid: cpu=%d pmu=%s core=%lld atom=%lld core_samples=%lld atom_samples=%lld "
               "sum=%llx\n",
               cpu, pmu == NULL ? "cpu" : pmu, stats.counts[0], stats.counts[1], samples.lines[0],
               samples.lines[1], samples.sum);
    }
    return failed != 0;
}

/* perf script prints one line a sample: "[002]". */
JOB(recordall)
{
    char *const record[] = {PERF,   "record", "-a",    "-e",    "instructions:u", "-c",
                            PERIOD, "-o",     SAMPLES, "/init", "loops",          NULL};
    char *const script[] = {PERF,       "script",  "-i",   SAMPLES, "-F",
                            "cpu,comm", "--comms", "loop", NULL};
    long long samples[PROCESSORS_MAX] = {0}, none[PROCESSORS_MAX] = {0};
    long long wanted = LOOP_INSTRUCTIONS / atoi(PERIOD);
    int count = processors_online(), failed = perf_lift_limits() != 0;
    int status = run_program("/tmp/record.out", record);
    char *text;

    if (status == 0)
        status = run_program(SCRIPT, script);
    text = read_text(SCRIPT);
    for (char *line; (line = next_word(&text, "\n")) != NULL;) {
        char *at = strchr(line, '[');
        int cpu = at == NULL ? -1 : atoi(at + 1);

        if (cpu >= 0 && cpu < PROCESSORS_MAX)
            samples[cpu]++;
    }
    printf("recordall: status=%d wanted=%lld", status, wanted);
    print_growth("samples", none, samples, count);
    printf("\n");
    if (status != 0) {
        text = read_text("/tmp/record.out");
        printf("recordall: said=\"%s\"\n", text == NULL ? "" : text);
    }
    for (int cpu = 0; cpu < count; cpu++) {
        /* The first sample of a program may be in the program before it. */
        failed |= samples[cpu] < wanted - 1 || samples[cpu] > wanted + 1;
    }
    return failed || status != 0;
}

/* perf script prints one line a sample: a blank and a record, for each record. */
JOB(recordbranches)
{
    char *const record[] = {PERF,   "record", "-b",    "-e",    "branches:u", "-c",
                            PERIOD, "-o",     SAMPLES, "/loop", NULL};
    char *const script[] = {PERF, "script", "-i", SAMPLES, "-F", "brstack", NULL};
    unsigned long long sum = FNV_FIRST;
    long long samples = 0, records = 0, full = 0;
    int failed = perf_lift_limits() != 0, status = run_program("/tmp/record.out", record);
    char *text;

    if (status == 0)
        status = run_program(SCRIPT, script);
    text = read_text(SCRIPT);
    for (char *line; (line = next_word(&text, "\n")) != NULL;) {
        int here = 0;

        for (char *word; (word = next_word(&line, " ")) != NULL;) {
            sum = checked(sum, word);
            here++;
        }
        samples += here > 0;
        records += here;
        full += here == RECORDS;
    }
    printf("recordbranches: status=%d samples=%lld records=%lld full=%lld sum=%llx wanted=%lld\n",
           status, samples, records, full, sum, (LOOP_ROUNDS + 1ll) / atoi(PERIOD));
    if (status != 0) {
        text = read_text("/tmp/record.out");
        printf("recordbranches: said=\"%s\"\n", text == NULL ? "" : text);
    }
    return failed || status != 0 || samples == 0;
}
