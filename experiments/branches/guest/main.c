/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: the program branchtrace: traces one of the works (work.c) and says whether the list is
 * complete. Usage: branchtrace [OPTION...] WORK [SCALE]; --help has the options. As the job
 * `branchtrace` of the guest's init it runs without arguments: the kernel command line's word
 * pmv.branchtrace= has its arguments, '_' for a blank, '/' between two runs.
 */
#include "output.h"
#include "perf.h"
#include "trace.h"
#include "work.h"

#include "programs/command_line.h"
#include "programs/guest_file.h"
#include "programs/measure/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD "pmv.branchtrace"
#define WORD_MAX 1024
#define ARGUMENTS_MAX 32
#define PERIOD_DEFAULT 32u
#define REGION_DEFAULT 3100u
#define RECORDS_DEFAULT (1u << 16)
#define LIST_FILE "list" /* testbed/README.md, "Files of the guest" */

static const char usage[] =
    "usage: branchtrace [OPTION...] WORK [SCALE]\n"
    "  -u, -k      branches to user mode, to the kernel; both may be given (default: -u)\n"
    "  -f          far branches, interrupts and exceptions too; -k has them always\n"
    "  -i          a PMI every PERIOD records, not every PERIOD taken near branches\n"
    "  -p PERIOD   default 32, as many as the processor has records\n"
    "  -n RECORDS  room for so many (default 65536)\n"
    "  -c FILE     the list as CSV; - is stdout\n"
    "  -m FILE     the map of edges, as afl-showmap -r writes it\n"
    "  -r REGION   the emulator's region around the stretch (default 3100)\n"
    "  -o          hands the list to the emulator, for its own check\n"
    "  -x          does the work without tracing it, for the price\n"
    "  -P          by perf_event_open in place of the module: user branches, period 31 or less\n"
    "  -d N        forgets the record N, to see the loss found\n";

struct options {
    struct branchtrace_setup setup;
    uint32_t region, drop;
    const char *csv, *map;
    bool hand_over, untraced, perf;
    const struct work *work;
    unsigned scale;
};

static bool write_file(const char *name, const struct list *list,
                       bool (*write)(FILE *out, const struct list *list))
{
    FILE *out = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
    bool done = out != NULL && write(out, list);

    if (out != NULL && out != stdout)
        done = fclose(out) == 0 && done;
    return done || complain("cannot write %s: %s", name, strerror(errno));
}

static bool write_map(FILE *out, const struct list *list)
{
    static uint8_t map[MAP_SIZE];

    map_edges(list, map);
    return map_write(out, map);
}

static bool number(const char *text, unsigned long most, uint32_t *value)
{
    char *end;
    unsigned long found = strtoul(text, &end, 0);

    *value = (uint32_t)found;
    return (end != text && *end == '\0' && found <= most) ||
           complain("found '%s', wanted a number up to %lu", text, most);
}

static bool parse(int argc, char **argv, struct options *o)
{
    int option;

    *o = (struct options){.setup = {.period = PERIOD_DEFAULT, .records = RECORDS_DEFAULT},
                          .region = REGION_DEFAULT,
                          .scale = 1};
    optind = 1;
    while ((option = getopt(argc, argv, "ukfip:n:c:m:r:od:xP")) != -1) {
        bool good = true;

        switch (option) {
        case 'u':
            o->setup.flags |= BRANCHTRACE_USER;
            break;
        case 'k':
            o->setup.flags |= BRANCHTRACE_KERNEL | BRANCHTRACE_FAR;
            break;
        case 'f':
            o->setup.flags |= BRANCHTRACE_FAR;
            break;
        case 'i':
            o->setup.flags |= BRANCHTRACE_INSERTS;
            break;
        case 'p':
            good = number(optarg, BRANCHTRACE_PERIOD_MAX, &o->setup.period);
            break;
        case 'n':
            good = number(optarg, BRANCHTRACE_RECORDS_MAX, &o->setup.records);
            break;
        case 'c':
            o->csv = optarg;
            break;
        case 'm':
            o->map = optarg;
            break;
        case 'r':
            good = number(optarg, UINT32_MAX, &o->region);
            break;
        case 'o':
            o->hand_over = true;
            break;
        case 'x':
            o->untraced = true;
            break;
        case 'P':
            o->perf = true;
            break;
        case 'd':
            good = number(optarg, UINT32_MAX, &o->drop);
            break;
        default:
            good = false;
            break;
        }
        if (!good)
            return false;
    }
    if ((o->setup.flags & (BRANCHTRACE_USER | BRANCHTRACE_KERNEL)) == 0)
        o->setup.flags |= BRANCHTRACE_USER;
    /* A PMI for each few records, at worst. */
    o->setup.readouts = o->setup.records / 4 + 64;
    o->setup.region = o->region;
    o->work = optind < argc ? work_named(argv[optind]) : NULL;
    return (o->work != NULL || complain("found work '%s', wanted one that --help lists",
                                        optind < argc ? argv[optind] : "")) &&
           (optind + 1 >= argc || number(argv[optind + 1], UINT32_MAX, &o->scale));
}

static void print_summary(const struct options *o, const struct tracer *tracer,
                          const struct list *list)
{
    const struct branchtrace_result *result = &tracer->result;

    printf("branchtrace: work=%s scale=%u region=%u modes=%s%s%s period=%u of=%s records=%zu "
           "near_taken=%llu inserts=%llu own=%zu outside=%zu pmis=%u missing=%zu lost=%" PRId64
           " near_lost=%" PRId64 " gaps=%zu cut=%u complete=%d\n",
           o->work->name, o->scale, o->region, o->setup.flags & BRANCHTRACE_USER ? "u" : "",
           o->setup.flags & BRANCHTRACE_KERNEL ? "k" : "",
           o->setup.flags & BRANCHTRACE_FAR ? "f" : "", o->setup.period,
           o->setup.flags & BRANCHTRACE_INSERTS ? "inserts" : "near_taken", list->count,
           (unsigned long long)result->near_taken, (unsigned long long)result->inserts, list->own,
           list->outside, result->pmis, list->missing, list->lost, list->near_lost, list->gaps,
           result->cut, list_complete(list) && result->cut == 0);
}

static int run_untraced(const struct options *o)
{
    unsigned scale = o->scale;

    o->work->run(&scale);
    region_mark(o->region, true);
    o->work->run(&scale);
    region_mark(o->region, false);
    printf("branchtrace: work=%s scale=%u region=%u untraced=1\n", o->work->name, o->scale,
           o->region);
    return 0;
}

static void give_list(const struct options *o, const struct list *list)
{
    struct branchtrace_record head = {o->region, list->count, o->setup.flags};

    guest_file(LIST_FILE, &head, sizeof(head));
    guest_file(LIST_FILE, list->records, list->count * sizeof(*list->records));
}

static int run_perf(struct options *o)
{
    struct perf_list found = {0};
    bool done = perf_trace(&o->setup, o->region, o->work->run, &o->scale, &found);

    if (!done)
        return 2;
    printf("branchtrace: work=%s scale=%u region=%u by=perf period=%u records=%zu near_taken=%llu "
           "pmis=%llu unread=%lld lost=%llu gaps=%zu\n",
           o->work->name, o->scale, o->region, o->setup.period, found.list.count,
           (unsigned long long)found.near_taken, (unsigned long long)found.samples,
           (long long)(found.near_taken - found.list.count), (unsigned long long)found.lost,
           found.list.gaps);
    if (o->hand_over)
        give_list(o, &found.list);
    free(found.list.records);
    return found.lost == 0 && found.list.gaps == 0 ? 0 : 1;
}

/* 0: the list is complete; 1: it is not, and the line above says why; 2: there is none. */
static int run(int argc, char **argv)
{
    struct options o;
    struct tracer tracer;
    struct list list;
    int status = 2;

    if (!parse(argc, argv, &o))
        return status;
    if (o.untraced || o.perf)
        return o.untraced ? run_untraced(&o) : run_perf(&o);
    if (tracer_open(&tracer, &o.setup)) {
        /* Once untraced: pages and the kernel's own caches are there then. */
        o.work->run(&o.scale);
        if (tracer_run(&tracer, o.region, o.work->run, &o.scale, o.drop, &list)) {
            print_summary(&o, &tracer, &list);
            status = list_complete(&list) && tracer.result.cut == 0 ? 0 : 1;
            if (o.hand_over)
                give_list(&o, &list);
            if ((o.csv != NULL && !write_file(o.csv, &list, csv_write)) ||
                (o.map != NULL && !write_file(o.map, &list, write_map))) {
                status = 2;
            }
        }
    }
    tracer_close(&tracer);
    return status;
}

/* Runs what the kernel command line says. */
static int run_job(char *program)
{
    char word[WORD_MAX], *rest = NULL, *inner = NULL;
    int worst = 0;

    command_line_word(WORD, "", word, sizeof(word));
    if (word[0] == '\0')
        return complain("no arguments, and the kernel command line has no " WORD "=") ? 0 : 2;
    for (char *one = strtok_r(word, "/", &rest); one != NULL; one = strtok_r(NULL, "/", &rest)) {
        char *argv[ARGUMENTS_MAX] = {program};
        int argc = 1, status;

        for (char *argument = strtok_r(one, "_", &inner);
             argument != NULL && argc < ARGUMENTS_MAX - 1; argument = strtok_r(NULL, "_", &inner)) {
            argv[argc++] = argument;
        }
        status = run(argc, argv);
        worst = status > worst ? status : worst;
    }
    return worst;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        for (const struct work *work = works; work->name != NULL; work++)
            printf("  %-8s %s\n", work->name, work->what);
        return 0;
    }
    return argc > 1 ? run(argc, argv) : run_job(argv[0]);
}
