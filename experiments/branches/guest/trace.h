/* SPDX-License-Identifier: BSD-2-Clause
 * trace.h: traces a function by the module's device. One trace at a time.
 */
#pragma once

#include "list.h"

#include <stdbool.h>
#include <stdint.h>

struct tracer {
    int fd;
    struct branchtrace_setup setup;
    struct branchtrace_record *buffer;
    size_t bytes;
    struct branchtrace_result result;
};

/* Loads the module where it is not there, binds this thread to its processor and takes the
 * counters; stops the NMI watchdog, which has one. False: one line says what went wrong. */
bool tracer_open(struct tracer *tracer, const struct branchtrace_setup *setup);
/* Again, when `setup` has another region. */
bool tracer_set_up(struct tracer *tracer);
/* Traces the work, with the region's markers around it. `drop` (0: none): forgets that record, as a
 * fault of the reading would, to see it found. The list lies in the tracer's buffer. */
bool tracer_run(struct tracer *tracer, uint32_t region, void (*work)(void *), void *argument,
                uint32_t drop, struct list *list);
/* The second half of it: reads what was traced. Another process may have run the stretch. */
bool tracer_read(struct tracer *tracer, uint32_t drop, struct list *list);
void tracer_close(struct tracer *tracer);

/* Writes to a file of the kernel's, if there is one. False: an error line was printed. */
bool set_kernel(const char *file, const char *value);
#define NMI_WATCHDOG "/proc/sys/kernel/nmi_watchdog"
/* An error line of this program's. Always false. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* stretch.asm */
long stretch_run(long fd, uint32_t region, void (*work)(void *), void *argument);
extern const char stretch_begin[], stretch_end[];
