/* SPDX-License-Identifier: BSD-2-Clause
 *
 * programs.h: what rr records and replays: one program, which is told what to do. Each does
 * something that a recorder has to see. What depends on time, addresses or turns goes through
 * varies().
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* The programs: int run_NAME(void). */
#define PROGRAMS(P)                                                                                \
    P(plain)                                                                                       \
    P(threads)                                                                                     \
    P(conditions)                                                                                  \
    P(signals)                                                                                     \
    P(faults)                                                                                      \
    P(queued)                                                                                      \
    P(fork)                                                                                        \
    P(exec)                                                                                        \
    P(spawn)                                                                                       \
    P(unix)                                                                                        \
    P(tcp)                                                                                         \
    P(timers)                                                                                      \
    P(clocks)                                                                                      \
    P(cpuid)                                                                                       \
    P(selfmod)                                                                                     \
    P(shared)                                                                                      \
    P(files)                                                                                       \
    P(events)                                                                                      \
    P(random)
#define DECLARE(name) int run_##name(void);
PROGRAMS(DECLARE)
#undef DECLARE

extern char **words; /* after the name */

/* A sum with many conditional branches, which rr counts; the same for the same seed. */
uint32_t work(uint32_t seed, unsigned rounds);

/* A line that another run of the same program may print otherwise. Its replay may not. */
#define varies(...) (printf("varies: " __VA_ARGS__), putchar('\n'))

/* Ends the program with a line that says what failed. */
void must(int good, const char *what);
