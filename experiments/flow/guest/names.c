/* SPDX-License-Identifier: BSD-2-Clause
 *
 * names.c: the names of the guest's processes, once, from /proc: for each what it executes and
 * where its stacks are, by which the analyses tell to whom a CR3 belongs (paper 002, section IV.C:
 * "process memory map"). Linux, proc(5): /proc/PID/maps, /proc/PID/comm.
 */
#include "names.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if (isprint((unsigned char)*text))
            fputc(*text, out);
    }
    fputc('"', out);
}

/* Where a thread's stack may be, and what it executes: everything that is executed or written.
 * Gives whether there is any: the kernel's own threads have none. */
static bool put_maps(FILE *out, const char *pid)
{
    char path[64], line[512];
    bool any = false;

    snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
    FILE *maps = fopen(path, "r");
    if (maps == NULL)
        return false;
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start, end;
        char rights[8];

        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 ||
            (rights[2] != 'x' && rights[1] != 'w'))
            continue;
        fprintf(out, "%s[\"%#lx\", \"%#lx\", \"%c\"]", any ? ", " : "", start, end,
                rights[2] == 'x' ? 'x' : 'w');
        any = true;
    }
    fclose(maps);
    return any;
}

static void put_process(FILE *out, const char *pid, bool first)
{
    char path[64], comm[64] = "";

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return; /* it has ended */
    if (fgets(comm, sizeof(comm), file) != NULL)
        comm[strcspn(comm, "\n")] = '\0';
    fclose(file);
    fprintf(out, "%s\n  {\"pid\": %s, \"tid\": %s, \"comm\": ", first ? "" : ",", pid, pid);
    put_text(out, comm);
    fputs(", \"pgd\": null, \"stack\": null, \"maps\": [", out);
    put_maps(out, pid);
    fputs("]}", out);
}

/* Linux's own word on page-table isolation, among the processor's flags. */
static bool isolation(void)
{
    static char line[1 << 14];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = strncmp(line, "flags", 5) == 0 &&
                (strstr(line, " pti ") != NULL || strstr(line, " pti\n") != NULL);
    if (file != NULL)
        fclose(file);
    return found;
}

int names_write(FILE *out)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    bool first = true;

    if (folder == NULL)
        return 0;
    fprintf(out, "{\"pti\": %s, \"tasks\": [", isolation() ? "true" : "false");
    while ((entry = readdir(folder)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0])) {
            put_process(out, entry->d_name, first);
            first = false;
        }
    closedir(folder);
    fputs("\n]}\n", out);
    return !ferror(out);
}
