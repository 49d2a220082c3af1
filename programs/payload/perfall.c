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

/* Both addresses of a branch, "0xFROM/0xTO/...", go into the checksum; cycles do not. */
static unsigned long long checked(unsigned long long sum, const char *record)
{
    for (int slashes = 0; *record != '\0' && slashes < 2; record++) {
        slashes += *record == '/';
        sum = (sum ^ (unsigned char)*record) * 0x100000001b3ull; /* FNV-1a */
    }
    return sum;
}

/* perf script prints one line a sample: a blank and a record, for each record. */
JOB(recordbranches)
{
    char *const record[] = {PERF,   "record", "-b",    "-e",    "branches:u", "-c",
                            PERIOD, "-o",     SAMPLES, "/loop", NULL};
    char *const script[] = {PERF, "script", "-i", SAMPLES, "-F", "brstack", NULL};
    unsigned long long sum = 0xcbf29ce484222325ull;
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
