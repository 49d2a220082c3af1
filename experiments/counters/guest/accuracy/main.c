/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: the accuracy experiment: programs of deterministic work, whose events are counted through
 * the kernel's perf_event_open(). The same counts natively and in a guest mean that the guest's PMU
 * is as exact as the processor's own. One line on stdout for each count. Under the name `scenarios`
 * the experiment of that name: one program in several arrangements, and PMIs of threads.
 * Usage: accuracy|scenarios [PASSES:SCALE:MIB]; PASSES of each program, each SCALE times as long,
 * MIB the working set of those that have a large one. Without an argument the kernel command line's
 * last word pmv.accuracy= is taken, if there is one. Without a PMU: one error line, and status 1.
 */
#include "accuracy.h"

#include "programs/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For hardware: two minutes or so, and a working set beyond most last levels of cache. */
#define PASSES_DEFAULT 31u
#define SCALE_DEFAULT 20u
#define MIB_DEFAULT 64u
#define NUMBER_MAX 1000000u
#define WORDS 3u
#define WORD "pmv.accuracy"
#define SCENARIOS_TURN_NANOSECONDS                                                                 \
    200000u /* under KVM, on two processors, its end alone takes as long as 50 us */
#define SCENARIOS "scenarios" /* the program's name for the other experiment */
#define WORD_MAX 64
#define MIB_SHIFT 20

static const struct program *const programs[] = {
    &loop_program, &sort_program, &chase_program, &stream_program, &hash_program, &matrix_program,
};

static bool read_options(const char *text, struct options *options)
{
    unsigned long word[WORDS] = {PASSES_DEFAULT, SCALE_DEFAULT, MIB_DEFAULT};
    char *end = NULL;

    for (unsigned i = 0; text != NULL && i < WORDS; i++, text = end + 1) {
        word[i] = strtoul(text, &end, 10);
        if ((*end != ':' && *end != '\0') || end == text || word[i] < 1 || word[i] > NUMBER_MAX ||
            (*end == ':' && i == WORDS - 1)) {
            return failed("found '%s', wanted PASSES:SCALE:MIB, each from 1 to %u", text,
                          NUMBER_MAX);
        }
        if (*end == '\0')
            break;
    }
    *options = (struct options){(unsigned)word[0], word[1], (uint64_t)word[2] << MIB_SHIFT};
    return true;
}

int main(int argc, char **argv)
{
    struct options options;
    char word[WORD_MAX];
    const char *name = strrchr(argv[0], '/');
    bool of_scenarios = strcmp(name == NULL ? argv[0] : name + 1, SCENARIOS) == 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (of_scenarios)
        experiment = SCENARIOS;
    command_line_word(WORD, "", word, sizeof(word));
    if (!read_options(argc > 1 ? argv[1] : word[0] != '\0' ? word : NULL, &options))
        return 1;
    if (!threads_stay_here() || !counters_stop_watchdog())
        return 1;
    if (of_scenarios) {
        threads_take_turns_of(SCENARIOS_TURN_NANOSECONDS);
        return scenarios(&options) && overflows(&options) ? 0 : 1;
    }
    for (unsigned i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        if (!passes_of(programs[i], i, &options))
            return 1;
    return rdpmc_alone(&options) && rdpmc_threads(&options) && exits_alone() ? 0 : 1;
}
