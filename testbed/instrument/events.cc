// SPDX-License-Identifier: BSD-2-Clause
//
// Event selection: which occurrences a counter takes. One instruction or one REP iteration is one
// cycle here, so an event happens at most once per cycle and CMASK has three meanings: 0 and 1
// count occurrences, more counts nothing (or, inverted, every cycle). Events of slots happen more
// often in a cycle (topdown.h).
#include "events.h"

#include "msr_index.h"
#include "topdown.h"

namespace {

constexpr unsigned only(BranchClass of) { return 1u << of; }

constexpr unsigned CONDITIONALS = only(CLASS_CONDITIONAL_TAKEN) | only(CLASS_CONDITIONAL_NOT_TAKEN);
constexpr unsigned NEAR_TAKEN = only(CLASS_CONDITIONAL_TAKEN) | only(CLASS_CALL) | only(CLASS_RET) |
                                only(CLASS_JMP);
constexpr unsigned ALL_BRANCHES = CONDITIONALS | NEAR_TAKEN | only(CLASS_FAR);

struct EventCode {
    uint8_t event;
    uint8_t umask;
    Event is;
    unsigned branches = 0;
};

constexpr EventCode codes[] = {
    {0xc0, 0x00, EVENT_INSTRUCTIONS},
    {0xc0, 0x01, EVENT_INSTRUCTIONS},  // INST_RETIRED.PREC_DIST
    {0x3c, 0x00, EVENT_CYCLES},
    {0x3c, 0x01, EVENT_REF_CYCLES},
    {0x3c, 0x02, EVENT_REF_CYCLES},  // ONE_THREAD_ACTIVE: a core has no other thread
    {0xc4, 0x00, EVENT_BRANCHES, ALL_BRANCHES},
    {0xc5, 0x00, EVENT_BRANCH_MISSES, ALL_BRANCHES},
    // Not architectural: the events of this model that Linux's generalized ones stand for.
    {0xd0, 0x81, EVENT_LOADS},      // MEM_INST_RETIRED.ALL_LOADS
    {0xd0, 0x82, EVENT_STORES},     // MEM_INST_RETIRED.ALL_STORES
    {0x51, 0x01, EVENT_L1_MISSES},  // L1D.REPLACEMENT
    // BR_INST_RETIRED, BR_MISP_RETIRED and ROB_MISC_EVENTS of Skylake: perf's skylakex events.
    {0xc4, 0x01, EVENT_BRANCHES, CONDITIONALS},
    {0xc4, 0x02, EVENT_BRANCHES, only(CLASS_CALL)},
    {0xc4, 0x04, EVENT_BRANCHES, ALL_BRANCHES},  // ALL_BRANCHES_PEBS
    {0xc4, 0x08, EVENT_BRANCHES, only(CLASS_RET)},
    {0xc4, 0x10, EVENT_BRANCHES, only(CLASS_CONDITIONAL_NOT_TAKEN)},
    {0xc4, 0x20, EVENT_BRANCHES, NEAR_TAKEN},
    {0xc4, 0x40, EVENT_BRANCHES, only(CLASS_FAR)},
    {0xc5, 0x01, EVENT_BRANCH_MISSES, CONDITIONALS},
    {0xc5, 0x02, EVENT_BRANCH_MISSES, only(CLASS_CALL)},
    {0xc5, 0x04, EVENT_BRANCH_MISSES, ALL_BRANCHES},  // ALL_BRANCHES_PEBS
    {0xc5, 0x20, EVENT_BRANCH_MISSES, NEAR_TAKEN},
    {0xcc, 0x20, EVENT_LBR_INSERTS},
    {0xcd, 0x01, EVENT_LOAD_LATENCY},  // MEM_TRANS_RETIRED.LOAD_LATENCY
};

constexpr unsigned NEAR_HITS = 1u << NEAR_READ_HIT | 1u << NEAR_OWN_HIT;
constexpr unsigned OFFCORE_HITS = 1u << OFFCORE_READ_HIT | 1u << OFFCORE_OWN_HIT;
constexpr unsigned OFFCORE_MISSES = 1u << OFFCORE_READ_MISS | 1u << OFFCORE_OWN_MISS;
constexpr unsigned OFFCORE_READS = 1u << OFFCORE_READ_HIT | 1u << OFFCORE_READ_MISS;
constexpr unsigned OFFCORE_OWNS = 1u << OFFCORE_OWN_HIT | 1u << OFFCORE_OWN_MISS;

// By umask; of code, prefetches and requests of other kinds there are none. libpfm4's table of
// Skylake-X, where each umask below is named.
struct MaskedCode {
    uint8_t event;
    uint8_t umask;
    Event is;
    unsigned mask;
};

constexpr unsigned NEAR_READ = 1u << NEAR_READ_HIT, NEAR_OWN = 1u << NEAR_OWN_HIT;

constexpr MaskedCode masked_codes[] = {
    // L2_RQSTS
    {0x24, 0x21, EVENT_OFFCORE, OFFCORE_READS},                             // DEMAND_DATA_RD_MISS
    {0x24, 0x22, EVENT_OFFCORE, OFFCORE_OWNS},                              // DEMAND_RFO_MISS
    {0x24, 0x27, EVENT_OFFCORE, OFFCORE_READS | OFFCORE_OWNS},              // ALL_DEMAND_MISS
    {0x24, 0x3f, EVENT_OFFCORE, OFFCORE_READS | OFFCORE_OWNS},              // MISS
    {0x24, 0x42, EVENT_OFFCORE, NEAR_OWN},                                  // RFO_HIT
    {0x24, 0xc1, EVENT_OFFCORE, NEAR_READ},                                 // DEMAND_DATA_RD_HIT
    {0x24, 0xc2, EVENT_OFFCORE, NEAR_OWN},                                  // DEMAND_RFO_HIT
    {0x24, 0xe1, EVENT_OFFCORE, OFFCORE_READS | NEAR_READ},                 // ALL_DEMAND_DATA_RD
    {0x24, 0xe2, EVENT_OFFCORE, OFFCORE_OWNS | NEAR_OWN},                   // ALL_RFO
    {0x24, 0xe7, EVENT_OFFCORE, OFFCORE_READS | OFFCORE_OWNS | NEAR_HITS},  // ..._REFERENCES
    {0x24, 0xff, EVENT_OFFCORE, OFFCORE_READS | OFFCORE_OWNS | NEAR_HITS},  // REFERENCES
    // OFFCORE_REQUESTS
    {0xb0, 0x01, EVENT_OFFCORE, OFFCORE_READS},                 // DEMAND_DATA_RD
    {0xb0, 0x04, EVENT_OFFCORE, OFFCORE_OWNS},                  // DEMAND_RFO
    {0xb0, 0x08, EVENT_OFFCORE, OFFCORE_READS},                 // ALL_DATA_RD
    {0xb0, 0x10, EVENT_OFFCORE, 1u << OFFCORE_READ_MISS},       // L3_MISS_DEMAND_DATA_RD
    {0xb0, 0x80, EVENT_OFFCORE, OFFCORE_READS | OFFCORE_OWNS},  // ALL_REQUESTS
    // MEM_LOAD_RETIRED
    {0xd1, 0x01, EVENT_LOAD_SOURCES, 1u << LOAD_L1},
    {0xd1, 0x02, EVENT_LOAD_SOURCES, 1u << LOAD_NEAR},
    {0xd1, 0x04, EVENT_LOAD_SOURCES, 1u << LOAD_LLC},
    {0xd1, 0x08, EVENT_LOAD_SOURCES, 1u << LOAD_NEAR | 1u << LOAD_LLC | 1u << LOAD_MEMORY},
    {0xd1, 0x10, EVENT_LOAD_SOURCES, 1u << LOAD_LLC | 1u << LOAD_MEMORY},
    {0xd1, 0x20, EVENT_LOAD_SOURCES, 1u << LOAD_MEMORY},
};

constexpr unsigned FP_EVENT = 0xc7;       // FP_ARITH_INST_RETIRED
constexpr unsigned HW_INTERRUPTS = 0xcb;  // .RECEIVED
constexpr unsigned LLC_EVENT = 0x2e;      // LONGEST_LAT_CACHE
constexpr unsigned LLC_REFERENCES = 0x4f;
constexpr unsigned LLC_MISSES = 0x41;
constexpr unsigned OFFCORE_EVENTS[OFFCORE_RSPS] = {0xb7, 0xbb};  // OFFCORE_RESPONSE
constexpr unsigned OFFCORE_UMASK = 0x01;

bool is_cycle_event(Event event) { return event == EVENT_CYCLES || event == EVENT_REF_CYCLES; }

// What an MSR_OFFCORE_RSP_x asks for. Requests of other kinds (prefetches, code) and remote memory
// do not happen here, and snoops find nothing, but some snoop result has to be asked for.
unsigned offcore_of(uint64_t rsp)
{
    unsigned requests = (rsp & OFFCORE_DEMAND_DATA_RD ? OFFCORE_READS : 0) |
                        (rsp & OFFCORE_DEMAND_RFO ? OFFCORE_OWNS : 0);
    unsigned answers = (rsp & OFFCORE_L3_HIT ? OFFCORE_HITS : 0) |
                       (rsp & OFFCORE_L3_MISS_LOCAL_DRAM ? OFFCORE_MISSES : 0);

    if (rsp & OFFCORE_ANY_RESPONSE)
        return requests;
    return rsp & OFFCORE_ANY_SNOOP ? requests & answers : 0;
}

void select_event(unsigned event, unsigned umask, const uint64_t (&offcore_rsp)[OFFCORE_RSPS],
                  Selector *selector)
{
    for (const EventCode &code : codes)
        if (code.event == event && code.umask == umask) {
            selector->event = code.is;
            selector->branches = code.branches;
        }
    for (const MaskedCode &code : masked_codes)
        if (code.event == event && code.umask == umask) {
            selector->event = code.is;
            selector->offcore = code.mask;
        }
    if (event == FP_EVENT) {
        selector->event = EVENT_FP;
        selector->offcore = umask;
    }
    if (event == HW_INTERRUPTS && umask == 0x01)
        selector->event = EVENT_INTERRUPTS;
    if (event == LLC_EVENT && (umask == LLC_REFERENCES || umask == LLC_MISSES)) {
        selector->event = EVENT_OFFCORE;
        selector->offcore = OFFCORE_MISSES | (umask == LLC_REFERENCES ? OFFCORE_HITS : 0);
    }
    for (unsigned n = 0; n < OFFCORE_RSPS; n++)
        if (event == OFFCORE_EVENTS[n] && umask == OFFCORE_UMASK) {
            selector->event = EVENT_OFFCORE;
            selector->offcore = offcore_of(offcore_rsp[n]);
        }
}

template<unsigned CLASSES>
uint64_t of_classes(const uint64_t (&counts)[CLASSES][MODE_COUNT], unsigned classes, unsigned mode)
{
    uint64_t sum = 0;

    for (unsigned of = 0; of < CLASSES; of++)
        sum += classes >> of & 1 ? counts[of][mode] : 0;
    return sum;
}

}  // namespace

bool Selector::per_instruction() const
{
    return event == EVENT_INSTRUCTIONS || is_cycle_event(event) || event == EVENT_UOPS_ISSUED ||
           shape == SHAPE_COMPLEMENT || shape == SHAPE_CYCLES;
}

unsigned Selector::per_occasion() const
{
    if (shape != SHAPE_PLAIN || event == EVENT_INSTRUCTIONS || is_cycle_event(event) ||
        event == EVENT_NONE)
        return 0;
    if (event == EVENT_UOPS_ISSUED || event == EVENT_FETCH_BUBBLES)
        return SLOTS - 1;
    return event == EVENT_FP ? FP_COUNTS_MAX : 1;
}

Selector selector_of_evtsel(uint64_t evtsel, const uint64_t (&offcore_rsp)[OFFCORE_RSPS])
{
    Selector selector;
    unsigned event = evtsel & PERFEVTSEL_EVENT;
    unsigned umask = evtsel >> PERFEVTSEL_UMASK_SHIFT & PERFEVTSEL_UMASK;
    unsigned cmask = static_cast<uint32_t>(evtsel) >> PERFEVTSEL_CMASK_SHIFT;
    bool inverted = evtsel & PERFEVTSEL_INV;

    select_event(event, umask, offcore_rsp, &selector);
    cmask = topdown_select(event, umask, cmask, &selector);
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

uint64_t EventCounts::in_mode(const Selector &selector, unsigned mode) const
{
    switch (selector.event) {
    case EVENT_INSTRUCTIONS:
        return retired[mode];
    case EVENT_CYCLES:
    case EVENT_REF_CYCLES:
        return cycles(mode);
    case EVENT_BRANCHES:
        return of_classes(branches, selector.branches, mode);
    case EVENT_BRANCH_MISSES:
        return of_classes(branch_misses, selector.branches, mode);
    case EVENT_LBR_INSERTS:
        return lbr_inserts[mode];
    case EVENT_LOADS:
        return loads[mode];
    case EVENT_STORES:
        return stores[mode];
    case EVENT_L1_MISSES:
        return l1_misses[mode];
    case EVENT_LOAD_LATENCY:
        return slow_loads[mode];
    case EVENT_OFFCORE:
        return of_classes(offcore, selector.offcore, mode);
    case EVENT_LOAD_SOURCES:
        return of_classes(load_sources, selector.offcore, mode);
    case EVENT_FP:
        return of_classes(fp, selector.offcore, mode);
    case EVENT_INTERRUPTS:
        return interrupts[mode];
    case EVENT_UOPS_ISSUED:
    case EVENT_FETCH_BUBBLES:
    case EVENT_REDIRECTS:
        return topdown_count(*this, selector.event, mode);
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
        uint64_t occurrences = in_mode(selector, mode);
        uint64_t all = cycles(mode);
        switch (selector.shape) {
        case SHAPE_PLAIN:
            sum += occurrences;
            break;
        case SHAPE_COMPLEMENT:
            // Events of caches can outnumber the instructions that cause them.
            sum += all > occurrences ? all - occurrences : 0;
            break;
        case SHAPE_CYCLES:
            sum += all;
            break;
        case SHAPE_NOTHING:
            break;
        }
    }
    return sum;
}

uint64_t EventCounts::pending(const Selector &selector) const
{
    if (entering >= MODE_COUNT || !selector.takes(entering))
        return 0;
    if (selector.shape == SHAPE_NOTHING)
        return 0;
    if (selector.shape == SHAPE_COMPLEMENT)
        return selector.event == EVENT_INSTRUCTIONS || is_cycle_event(selector.event) ? 0 : 1;
    if (selector.shape == SHAPE_CYCLES)
        return 1;
    return selector.event == EVENT_INSTRUCTIONS || is_cycle_event(selector.event) ||
                   selector.event == EVENT_UOPS_ISSUED
               ? 1
               : 0;
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
