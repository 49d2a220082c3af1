/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.h: the piece of work whose accesses are traced and listed.
 */
#pragma once

#include <stdbool.h>

/* Started as this by load_run(): the program has nothing to do. */
#define LOAD_CHILD "child"

/* Writes to so many new pages. */
int load_touch(unsigned pages);
/* Stores in user mode, system calls, fork, exec and wait, sleeps that timer interrupts end, and,
 * with `samples`, stores and calls again while a counter's PMIs sample them, `rounds` times. The
 * stores are to new pages or, `of_device`, to a device's memory. Gives 0, or -1 where a part has
 * failed, which it prints. */
int load_run(int rounds, bool samples, bool of_device);
