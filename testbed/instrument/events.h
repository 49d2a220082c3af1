/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The events of one processor and how a counter selects among them. Knows no MSR and nothing of
 * Bochs, so that it can be tested on the host. SDM Vol. 3, "Pre-defined Architectural Performance
 * Events".
 */
#ifndef TB_EVENTS_H
#define TB_EVENTS_H

#include <cstdint>

enum Event {
    EVENT_INSTRUCTIONS,
    EVENT_CYCLES,
    EVENT_REF_CYCLES,
    EVENT_BRANCHES,
    EVENT_BRANCH_MISSES,
    EVENT_LLC_REFERENCES,
    EVENT_LLC_MISSES,
    EVENT_NONE
};

/* As TB_MODES: bit 0 is user mode, bit 1 VMX root operation. */
constexpr unsigned MODE_USER_BIT = 1;
constexpr unsigned MODE_ROOT_BIT = 2;
constexpr unsigned MODE_COUNT = 4;

/* What CMASK and INV make of an event. */
enum Shape {
    SHAPE_PLAIN,       /* occurrences */
    SHAPE_COMPLEMENT,  /* cycles without an occurrence */
    SHAPE_CYCLES,      /* all cycles */
    SHAPE_NOTHING
};

struct Selector {
    Event event = EVENT_NONE;
    Shape shape = SHAPE_PLAIN;
    bool user = false;
    bool kernel = false;

    bool takes(unsigned mode) const { return mode & MODE_USER_BIT ? user : kernel; }
    /* Advances with each instruction, so that its overflow can be foreseen. */
    bool per_instruction() const;
    /* Advances when `event` happens. */
    bool needs(Event other) const { return event == other; }
};

/* The selector of an IA32_PERFEVTSELx value. */
Selector selector_of_evtsel(uint64_t evtsel);
/* The selector of fixed counter n with its four control bits. */
Selector selector_of_fixed(unsigned n, uint64_t field);

/* Occurrences since the machine was made, by the mode they happened in. */
struct EventCounts {
    const uint64_t *retired = nullptr;     /* instructions: the hot state's own */
    const uint64_t *iterations = nullptr;  /* REP iterations after the first */
    uint64_t branches[MODE_COUNT] = {};
    uint64_t branch_misses[MODE_COUNT] = {};
    uint64_t llc_references[MODE_COUNT] = {};
    uint64_t llc_misses[MODE_COUNT] = {};
    /* The mode of an instruction that has begun and will retire, or MODE_COUNT. */
    unsigned in_flight = MODE_COUNT;

    /* Occurrences so far that the selector takes. */
    uint64_t count(const Selector &selector) const;
    /* What count() will have grown by when the instruction in flight retires. */
    uint64_t pending(const Selector &selector) const;
    /* Instructions so far: in all modes, and in root mode or outside it. */
    uint64_t instructions() const;
    uint64_t instructions_in(bool root) const;

private:
    uint64_t in_mode(Event event, unsigned mode) const;
};

#endif
