/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Records exceptions and software interrupts, for the tests of debug exceptions.
 */
#pragma once

#include "emulator.h"

#define VECTOR_SOFTWARE 0x42
#define UD2_LENGTH 2
#define DR6_B0 BIT(0)
#define DR6_BD BIT(13)
/* Enables breakpoint 0, for reads and writes of two bytes. */
#define DR7_WATCH_0 (DR7_RESET | BIT(1) | UINT64_C(7) << 16)

/* Breakpoint 0 watches this word, which is a data selector. */
extern volatile uint16_t watched;
/* If not 0, the next event's handler returns here, at CPL 0, instead of where the event came
 * from. */
extern struct back {
    uint64_t rip, rsp;
} back;

/* Sets up the handlers and breakpoint 0. */
void events_begin(void);
/* Forgets the events and resets the debug registers, except the address of breakpoint 0. */
void events_clear(void);
struct event {
    unsigned vector;
    uint64_t rip, dr6;
};
/* Checks that exactly these events came, each {vector, rip, dr6}. */
void check_events(const struct event *wanted, unsigned count);
#define CHECK_EVENTS(...)                                                                          \
    check_events((const struct event[]){__VA_ARGS__},                                              \
                 LENGTH_OF(((const struct event[]){__VA_ARGS__})))
/* RSP at the first event. */
extern volatile uint64_t event_rsp;
