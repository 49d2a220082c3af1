/* SPDX-License-Identifier: BSD-2-Clause
 * linux_sees.c: the job `sees`: what Linux has made of the machine, a line for each thing, to
 * compare one boot with another: its PMUs, the processor's flags, its clock, and what it does about
 * vulnerabilities. The drivers of the uncore's and the C-states' PMUs are loaded, where the image
 * has them.
 */
#include "payload.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define FLAGS "\nflags"

static void print_pmus(void)
{
    DIR *folder = opendir(PMUS);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            printf("sees: pmu %s\n", entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

/* Of the first processor. */
static void print_flags(void)
{
    char *text = read_text("/proc/cpuinfo");
    char *flags = text == NULL ? NULL : strstr(text, FLAGS);

    if (flags == NULL || (flags = strchr(flags, ':')) == NULL) {
        printf("sees: flags ?\n");
        return;
    }
    *flags++ = '\0';
    flags[strcspn(flags, "\n")] = '\0';
    for (char *flag; (flag = next_word(&flags, " ")) != NULL;)
        printf("sees: flag %s\n", flag);
}

JOB(sees)
{
    load_module("intel-cstate");
    load_module("intel-uncore");
    print_pmus();
    print_flags();
    print_mitigations();
    char *clock = read_text(CLOCK);
    printf("sees: clock %s", clock == NULL ? "?\n" : clock);
    return clock == NULL;
}
