// SPDX-License-Identifier: BSD-2-Clause
//
// Event selection: which occurrences a counter takes. One instruction or one REP iteration is one
// cycle here, so an event happens at most once per cycle and CMASK has three meanings: 0 and 1
// count occurrences, more counts nothing (or, inverted, every cycle).
#include "events.h"

#include "msr_index.h"

namespace {

struct EventCode {
    uint8_t event;
    uint8_t umask;
    Event is;
};

constexpr EventCode codes[] = {
    {0xc0, 0x00, EVENT_INSTRUCTIONS},
    {0xc0, 0x01, EVENT_INSTRUCTIONS},  // INST_RETIRED.PREC_DIST
    {0x3c, 0x00, EVENT_CYCLES},
    {0x3c, 0x01, EVENT_REF_CYCLES},
    {0xc4, 0x00, EVENT_BRANCHES},
    {0xc5, 0x00, EVENT_BRANCH_MISSES},
    {0x2e, 0x4f, EVENT_LLC_REFERENCES},
    {0x2e, 0x41, EVENT_LLC_MISSES},
};

bool is_cycle_event(Event event)
{
    return event == EVENT_CYCLES || event == EVENT_REF_CYCLES;
}

}  // namespace

bool Selector::per_instruction() const
{
    return event == EVENT_INSTRUCTIONS || is_cycle_event(event) || shape == SHAPE_COMPLEMENT ||
           shape == SHAPE_CYCLES;
}

Selector selector_of_evtsel(uint64_t evtsel)
{
    Selector selector;
    unsigned event = evtsel & PERFEVTSEL_EVENT;
    unsigned umask = evtsel >> PERFEVTSEL_UMASK_SHIFT & PERFEVTSEL_UMASK;
    unsigned cmask = static_cast<uint32_t>(evtsel) >> PERFEVTSEL_CMASK_SHIFT;
    bool inverted = evtsel & PERFEVTSEL_INV;

    for (const EventCode &code : codes)
        if (code.event == event && code.umask == umask)
            selector.event = code.is;
    selector.user = evtsel & PERFEVTSEL_USR;
    selector.kernel = evtsel & PERFEVTSEL_OS;
    // INV has no meaning without a threshold.
    if (cmask == 1 && inverted)
        selector.shape = SHAPE_COMPLEMENT;
    else if (cmask > 1)
        selector.shape = inverted ? SHAPE_CYCLES : SHAPE_NOTHING;
    return selector;
}

Selector selector_of_fixed(unsigned n, uint64_t field)
{
    // The fourth counts TOPDOWN.SLOTS, of which a cycle has one here. The further ones count kinds
    // of slots, which the model cannot tell apart.
    static constexpr Event events[] = {EVENT_INSTRUCTIONS, EVENT_CYCLES, EVENT_REF_CYCLES,
                                       EVENT_CYCLES};
    Selector selector;

    if (n < sizeof(events) / sizeof(events[0]))
        selector.event = events[n];
    selector.user = field & FIXED_CTRL_USR;
    selector.kernel = field & FIXED_CTRL_OS;
    return selector;
}

uint64_t EventCounts::in_mode(Event event, unsigned mode) const
{
    switch (event) {
    case EVENT_INSTRUCTIONS:
        return retired[mode];
    case EVENT_CYCLES:
    case EVENT_REF_CYCLES:
        return retired[mode] + iterations[mode];
    case EVENT_BRANCHES:
        return branches[mode];
    case EVENT_BRANCH_MISSES:
        return branch_misses[mode];
    case EVENT_LLC_REFERENCES:
        return llc_references[mode];
    case EVENT_LLC_MISSES:
        return llc_misses[mode];
    case EVENT_NONE:
        break;
    }
    return 0;
}

uint64_t EventCounts::count(const Selector &selector) const
{
    uint64_t sum = 0;

    for (unsigned mode = 0; mode < MODE_COUNT; mode++) {
        if (!selector.takes(mode))
            continue;
        uint64_t occurrences = in_mode(selector.event, mode);
        uint64_t cycles = in_mode(EVENT_CYCLES, mode);
        switch (selector.shape) {
        case SHAPE_PLAIN:
            sum += occurrences;
            break;
        case SHAPE_COMPLEMENT:
            // LLC events can outnumber the instructions that cause them.
            sum += cycles > occurrences ? cycles - occurrences : 0;
            break;
        case SHAPE_CYCLES:
            sum += cycles;
            break;
        case SHAPE_NOTHING:
            break;
        }
    }
    return sum;
}

uint64_t EventCounts::pending(const Selector &selector) const
{
    if (in_flight >= MODE_COUNT || !selector.takes(in_flight))
        return 0;
    if (selector.shape == SHAPE_NOTHING)
        return 0;
    if (selector.shape == SHAPE_COMPLEMENT)
        return selector.event == EVENT_INSTRUCTIONS || is_cycle_event(selector.event) ? 0 : 1;
    if (selector.shape == SHAPE_CYCLES)
        return 1;
    return selector.event == EVENT_INSTRUCTIONS || is_cycle_event(selector.event) ? 1 : 0;
}

uint64_t EventCounts::instructions_in(bool root) const
{
    unsigned kernel = root ? MODE_ROOT_BIT : 0;

    return retired[kernel] + retired[kernel | MODE_USER_BIT];
}

uint64_t EventCounts::instructions() const
{
    return instructions_in(false) + instructions_in(true);
}
