/* SPDX-License-Identifier: BSD-2-Clause
 *
 * programs.h: what rr records and replays: one program, which is told what to do. Each does
 * something that a recorder has to see. What depends on time, addresses or turns goes through
 * varies().
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct program {
    const char *name;
    int (*run)(char **words);
};

int run_plain(char **words);
int run_threads(char **words);
int run_conditions(char **words);
int run_signals(char **words);
int run_faults(char **words);
int run_queued(char **words);
int run_fork(char **words);
int run_exec(char **words);
int run_spawn(char **words);
int run_unix(char **words);
int run_tcp(char **words);
int run_timers(char **words);
int run_clocks(char **words);
int run_cpuid(char **words);
int run_selfmod(char **words);
int run_shared(char **words);
int run_files(char **words);
int run_events(char **words);
int run_random(char **words);

/* A sum with many conditional branches, which rr counts; the same for the same seed. */
uint32_t work(uint32_t seed, unsigned rounds);

/* A line that another run of the same program may print otherwise. Its replay may not. */
#define varies(...) (printf("varies: " __VA_ARGS__), putchar('\n'))

/* Ends the program with a line that says what failed. */
void must(int good, const char *what);
