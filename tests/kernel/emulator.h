/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tests of the emulator, which run natively: `emulator:PART`. Each part checks that the emulated
 * processor does what the SDM says. The head of the part's file names the section.
 */
#pragma once

#include "fuzz.h"
#include "kernel.h"
#include "layout.h"

/* Architectural events: event select and unit mask. */
#define EVENT_INSTRUCTIONS 0xc0u
#define EVENT_BRANCHES 0xc4u
#define EVENT_LLC_REFERENCES 0x4f2eu
#define EVENT_LLC_MISSES 0x412eu
#define RDPMC_FIXED BIT(30) /* RDPMC's ECX for fixed counters */
#define PMI_VECTOR 0x40u
#define FREE_MEMORY UINT64_C(0x4000000) /* no one else uses these pages */

/* ---- emulator.c ---- */

/* A prefix for the names of the checks that follow. */
void check_about(const char *what, const char *more);
/* A failed check prints what was found and what was wanted. */
void check_equal(const char *what, uint64_t found, uint64_t wanted);
void check_that(const char *what, bool holds);

/* Gives a vector a handler, on the stack of what it interrupts, until the part's end. */
void handle(unsigned vector, void (*handler)(struct trap_frame *frame));
/* The first instruction of each vector's handler. */
uint64_t handler_of(unsigned vector);

bool wrmsr_faults(uint32_t index, uint64_t value);
bool rdmsr_faults(uint32_t index);
bool rdpmc_faults(uint32_t index);
static inline uint64_t rdpmc(uint32_t index)
{
    uint32_t low, high;

    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
    return (uint64_t)high << 32 | low;
}
/* Lets interrupts in for a moment. */
void open_interrupts(void);
/* Interrupts with PMI_VECTOR. */
extern volatile unsigned pmi_interrupts;
/* Lets CPL 3 access a page, or stops it. Returns the page's entry in the page tables. */
uint64_t *page_for_user(uint64_t linear, bool user);

/* ---- emulator_debug.c: exceptions and software interrupts as they came ---- */

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

/* ---- the parts, X(name) ---- */

#define EMULATOR_PARTS(X)                                                                          \
    X(apic)                                                                                        \
    X(timer)                                                                                       \
    X(debug)                                                                                       \
    X(smap)                                                                                        \
    X(files)                                                                                       \
    X(pmu)                                                                                         \
    X(events)                                                                                      \
    X(lbr)                                                                                         \
    X(step)                                                                                        \
    X(vmx)                                                                                         \
    X(inject)                                                                                      \
    X(virtual)                                                                                     \
    X(shape)                                                                                       \
    X(pt)                                                                                          \
    X(pt_guest)                                                                                    \
    X(counts)
#define EMULATOR_DECLARE(name) void emulator_##name(void);
EMULATOR_PARTS(EMULATOR_DECLARE)
#undef EMULATOR_DECLARE
