/* SPDX-License-Identifier: BSD-2-Clause
 *
 * target.h: the program whose memory accesses are traced.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "hypervisor.h"

struct target {
    pid_t pid;
    int processor;                 /* that it may run on, with its threads and children */
    struct memory_request request; /* at its entry points; MEMTRACE_OFF: nothing */
    bool ended;                    /* it is about to end, or has; its tables are still there */
    int status;                    /* of wait(), where pid is 0: it is gone */
};

/* Starts the program, stopped at its entry point, with the trace on. 0, or 1 with a line said. */
int target_start(struct target *target, char **command);
/* Lets it run from where it is stopped. */
int target_go(struct target *target);
/* Looks for what has happened to it, without waiting, and lets it go on; `ended` may become true,
 * and then it is stopped. 0, or 1 with a line said. */
int target_look(struct target *target);
/* Waits for its end. */
void target_wait(struct target *target);
