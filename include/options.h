/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the user asked for, from pmuvisor.cfg and the load options. Filled by boot/options.c,
 * read by everyone, changed by nobody afterwards.
 */
#ifndef PMUVISOR_OPTIONS_H
#define PMUVISOR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "refusal.h"

enum policy { POLICY_INTERCEPT, POLICY_MSR, POLICY_MSR_NMI };
enum console { CONSOLE_COM1, CONSOLE_COM2, CONSOLE_NONE };

#define OPTION_PATH_MAX 256
#define OPTION_APPEND_MAX 2048 /* COMMAND_LINE_SIZE of Linux on x86 */

struct options {
    enum policy policy;
    enum console console;
    bool pmu;           /* pmu=on: without an architectural PMU the start is refused */
    bool stats_cycles;  /* stats=cycles: RDTSC around every exit */
    bool user_hypercalls; /* VMCALL at CPL 1 to 3 is served too */
    uint32_t tick_ms;   /* 0: no tick */
    char kernel[OPTION_PATH_MAX]; /* relative to the folder of the image unless it starts with a separator */
    char initrd[OPTION_PATH_MAX];
    char append[OPTION_APPEND_MAX];
};

/* The defaults, before any source is read. */
void options_default(struct options *o);

/* Reads one source. `text` is ASCII, not terminated, `length` bytes; `source` names it in errors
 * ("load options", "pmuvisor.cfg"). Tokens are separated by blanks and line ends, `#` at the start
 * of a line begins a comment, `append=` takes the rest of its line. A later source wins. */
bool options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                   struct refusal *r);

/* The name of a policy as the user writes it. */
const char *policy_name(enum policy policy);

#endif
