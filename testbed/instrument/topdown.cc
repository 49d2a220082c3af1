// SPDX-License-Identifier: BSD-2-Clause
//
// Codes are those of perf's and likwid's events of Skylake-X. INT_MISC.RECOVERY_CYCLES counts
// nothing: a misprediction takes no cycle of its own here.
#include "topdown.h"

namespace {

constexpr unsigned UOPS_ISSUED = 0x0e;
constexpr unsigned UOPS_RETIRED = 0xc2;
constexpr unsigned IDQ_UOPS_NOT_DELIVERED = 0x9c;
constexpr unsigned ANY = 0x01;           // also UOPS_RETIRED.ALL and .CORE of the last one
constexpr unsigned RETIRE_SLOTS = 0x02;  // of UOPS_RETIRED
constexpr unsigned OTHERS = SLOTS - 1;
constexpr unsigned EVERY_CLASS = (1u << BRANCH_CLASSES) - 1;

bool is_taken(unsigned of) { return of != CLASS_CONDITIONAL_NOT_TAKEN; }

uint64_t misses(const EventCounts &events, unsigned mode)
{
    uint64_t sum = 0;

    for (unsigned of = 0; of < BRANCH_CLASSES; of++)
        sum += events.branch_misses[of][mode];
    return sum;
}

uint64_t redirects(const EventCounts &events, unsigned mode)
{
    uint64_t sum = 0;

    for (unsigned of = 0; of < BRANCH_CLASSES; of++)
        if (is_taken(of))
            sum += events.branches[of][mode] - events.branch_misses[of][mode];
    return sum;
}

}  // namespace

unsigned topdown_select(unsigned event, unsigned umask, unsigned threshold, Selector *selector)
{
    if (event == UOPS_RETIRED && (umask == ANY || umask == RETIRE_SLOTS)) {
        selector->event = EVENT_CYCLES;
        return threshold;
    }
    if (umask != ANY || (event != UOPS_ISSUED && event != IDQ_UOPS_NOT_DELIVERED))
        return threshold;
    bool issued = event == UOPS_ISSUED;
    selector->event = issued ? EVENT_UOPS_ISSUED : EVENT_FETCH_BUBBLES;
    if (threshold == 0 || threshold > (issued ? SLOTS : OTHERS))
        return threshold;
    // Cycles with so many of them: one is in each, all four only in that of a misprediction.
    if (!issued) {
        selector->event = EVENT_REDIRECTS;
    } else if (threshold == 1) {
        selector->event = EVENT_CYCLES;
    } else {
        selector->event = EVENT_BRANCH_MISSES;
        selector->branches = EVERY_CLASS;
    }
    return 1;
}

uint64_t topdown_count(const EventCounts &events, Event event, unsigned mode)
{
    if (event == EVENT_UOPS_ISSUED)
        return events.cycles(mode) + OTHERS * misses(events, mode);
    return (event == EVENT_FETCH_BUBBLES ? OTHERS : 1) * redirects(events, mode);
}
