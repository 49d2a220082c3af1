/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exceptions and software interrupts as they came, for the tests of debug exceptions.
 */
#pragma once

#include "emulator.h"

#define VECTOR_SOFTWARE 0x42
#define UD2_LENGTH 2
#define DR6_B0 BIT(0)
#define DR6_BD BIT(13)
/* Breakpoint 0: enabled, reads and writes of two bytes. */
#define DR7_WATCH_0 (DR7_RESET | BIT(1) | UINT64_C(7) << 16)

/* The word at breakpoint 0, a selector of data. */
extern volatile uint16_t watched;
/* Where an event goes on, once, in place of where it came from: at CPL 0. 0: nowhere else. */
extern struct back {
    uint64_t rip, rsp;
} back;

/* Handlers of the events, and breakpoint 0. */
void events_begin(void);
/* No events seen, debug registers as after reset but for the address of breakpoint 0. */
void events_clear(void);
struct event {
    unsigned vector;
    uint64_t rip, dr6;
};
/* These events came, {vector, rip, dr6} each, and no other. */
void check_events(const struct event *wanted, unsigned count);
#define CHECK_EVENTS(...)                                                                          \
    check_events((const struct event[]){__VA_ARGS__},                                              \
                 LENGTH_OF(((const struct event[]){__VA_ARGS__})))
/* RSP at the first one. */
extern volatile uint64_t event_rsp;
