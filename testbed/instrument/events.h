/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The events of one processor and how a counter selects among them. Knows no MSR and nothing of
 * Bochs, so that it can be tested on the host. SDM Vol. 3, "Pre-defined Architectural Performance
 * Events".
 */
#pragma once

#include <cstdint>

#include "branch.h"
#include "floating.h"

enum Event {
    EVENT_INSTRUCTIONS,
    EVENT_CYCLES,
    EVENT_REF_CYCLES,
    EVENT_BRANCHES,      /* of the classes that Selector names */
    EVENT_BRANCH_MISSES, /* likewise */
    EVENT_LBR_INSERTS,   /* changes of the branch records */
    EVENT_LOADS,         /* instructions that load, and that store */
    EVENT_STORES,
    EVENT_L1_MISSES,    /* lines brought into L1 */
    EVENT_LOAD_LATENCY, /* loads that took longer than MSR_PEBS_LD_LAT */
    EVENT_OFFCORE,      /* requests for lines that are not in L1; Selector says which */
    EVENT_LOAD_SOURCES, /* instructions that load, by where the data was; Selector says where */
    EVENT_FP,           /* floating-point arithmetic of the classes that Selector names */
    EVENT_INTERRUPTS,   /* external interrupts */
    EVENT_UOPS_ISSUED,  /* of slots: topdown.h */
    EVENT_FETCH_BUBBLES,
    EVENT_REDIRECTS,
    EVENT_NONE
};

/* Requests that miss L1: for a load, or to own the line; found in L2, in the LLC, or not. */
enum Offcore {
    NEAR_READ_HIT,
    NEAR_OWN_HIT,
    OFFCORE_READ_HIT,
    OFFCORE_READ_MISS,
    OFFCORE_OWN_HIT,
    OFFCORE_OWN_MISS,
    OFFCORE_KINDS
};

/* Where the data of a load was: of several lines, of that which was furthest away. */
enum LoadSource { LOAD_L1, LOAD_NEAR, LOAD_LLC, LOAD_MEMORY, LOAD_SOURCES };

/* As TB_MODES: bit 0 is user mode, bit 1 VMX root operation. */
constexpr unsigned MODE_USER_BIT = 1;
constexpr unsigned MODE_ROOT_BIT = 2;
constexpr unsigned MODE_COUNT = 4;

/* What CMASK and INV make of an event. */
enum Shape {
    SHAPE_PLAIN,      /* occurrences */
    SHAPE_COMPLEMENT, /* cycles without an occurrence */
    SHAPE_CYCLES,     /* all cycles */
    SHAPE_NOTHING
};

struct Selector {
    Event event = EVENT_NONE;
    /* EVENT_OFFCORE, _LOAD_SOURCES and _FP: a bit for each kind, source or class that counts */
    unsigned offcore = 0;
    unsigned branches = 0; /* EVENT_BRANCHES and EVENT_BRANCH_MISSES: one for each class */
    Shape shape = SHAPE_PLAIN;
    bool user = false;
    bool kernel = false;

    bool takes(unsigned mode) const { return mode & MODE_USER_BIT ? user : kernel; }
    /* Advances with each instruction, so that its overflow can be foreseen. */
    bool per_instruction() const;
    /* By how much it advances at most where its event happens apart from that; 0: it does not. */
    unsigned per_occasion() const;
    bool operator==(const Selector &other) const
    {
        return event == other.event && offcore == other.offcore && branches == other.branches &&
               shape == other.shape && user == other.user && kernel == other.kernel;
    }
};

/* MSR_OFFCORE_RSP_0 and 1. */
constexpr unsigned OFFCORE_RSPS = 2;

/* The selector of an IA32_PERFEVTSELx value, with the values of MSR_OFFCORE_RSP_0 and 1. */
Selector selector_of_evtsel(uint64_t evtsel, const uint64_t (&offcore_rsp)[OFFCORE_RSPS]);
/* The selector of fixed counter n with its four control bits. */
Selector selector_of_fixed(unsigned n, uint64_t field);

/* Occurrences since the machine was made, by the mode they happened in. */
struct EventCounts {
    const uint64_t *retired = nullptr;    /* instructions: the hot state's own */
    const uint64_t *iterations = nullptr; /* REP iterations after the first */
    uint64_t branches[BRANCH_CLASSES][MODE_COUNT] = {};
    uint64_t branch_misses[BRANCH_CLASSES][MODE_COUNT] = {};
    uint64_t lbr_inserts[MODE_COUNT] = {};
    uint64_t loads[MODE_COUNT] = {};
    uint64_t stores[MODE_COUNT] = {};
    uint64_t l1_misses[MODE_COUNT] = {};
    uint64_t slow_loads[MODE_COUNT] = {};
    uint64_t offcore[OFFCORE_KINDS][MODE_COUNT] = {};
    uint64_t load_sources[LOAD_SOURCES][MODE_COUNT] = {};
    uint64_t fp[FP_CLASSES][MODE_COUNT] = {};
    uint64_t interrupts[MODE_COUNT] = {};
    /* The mode of a VM entry that has begun and will retire, or MODE_COUNT: it is the host's. */
    unsigned entering = MODE_COUNT;

    /* Occurrences so far that the selector takes. */
    uint64_t count(const Selector &selector) const;
    /* What count() will have grown by when the VM entry retires. */
    uint64_t pending(const Selector &selector) const;
    /* Instructions so far: in all modes, and in root mode or outside it. */
    uint64_t instructions() const;
    uint64_t instructions_in(bool root) const;
    uint64_t cycles(unsigned mode) const { return retired[mode] + iterations[mode]; }

private:
    uint64_t in_mode(const Selector &selector, unsigned mode) const;
};
