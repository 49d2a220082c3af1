// SPDX-License-Identifier: BSD-2-Clause
//
// When a look is due: a processor that looks only then finds the same overflows, after the same
// instructions, as one that looks after each. Counters are near to their overflow, and events as
// random as instructions.
#include "check.h"
#include "pmu_machine.h"

#include <algorithm>
#include <random>

namespace {

constexpr unsigned MACHINES = 3000;
constexpr unsigned STEPS = 200;
constexpr unsigned ALL_COUNTERS = 0xf;
// Mask and event: instructions, cycles, branches, their misses, slots, bubbles, cycles with
// bubbles, loads, lines of L1, and floating-point arithmetic.
constexpr uint64_t EVENTS[] = {0xc0,  0x3c,      0xc4,   0xc5,  0x10e,
                               0x19c, 0x100019c, 0x81d0, 0x151, 0xffc7};

struct Planned : Machine {
    uint64_t look_at = 0;
    uint64_t occasions = 0;

    void plan(unsigned mode)
    {
        uint64_t budget = pmu.budget(mode, events.instructions());
        look_at = budget == PMU_NEVER ? PMU_NEVER : events.cycles(mode) + budget;
        occasions = pmu.occasions();
    }
    // Whether the instruction in this mode, on which so many events have fallen, has a look.
    bool due(unsigned mode, unsigned events_fell)
    {
        if (occasions >= events_fell && events.cycles(mode) < look_at) {
            occasions -= events_fell;
            return false;
        }
        return true;
    }
};

// The events of one instruction; how many times something happened.
unsigned happens(EventCounts *events, unsigned mode, unsigned which)
{
    if (which & 1) {
        events->branches[CLASS_JMP][mode]++;
        events->branch_misses[CLASS_JMP][mode] += which >> 1 & 1;
    }
    if (which & 4) {
        events->loads[mode]++;
        events->fp[FP_SCALAR_DOUBLE][mode] += FP_COUNTS_MAX;
    }
    if (which & 8)
        events->l1_misses[mode]++;
    return (which & 1) + (which >> 2 & 1) + (which >> 3 & 1);
}

TEST(a_look_that_waits_for_its_time_finds_the_same)
{
    std::mt19937 random(1);
    unsigned overflows = 0, looks = 0;

    for (unsigned of = 0; of < MACHINES; of++) {
        Machine each;
        Planned planned;
        for (unsigned n = 0; n < 4; n++) {
            uint64_t evtsel = EVENTS[random() % std::size(EVENTS)] | PERFEVTSEL_EN |
                              (random() % 4 ? PERFEVTSEL_OS : 0) | PERFEVTSEL_USR;
            uint64_t value = COUNTER_MASK - random() % (STEPS / 2);
            for (Machine *m : {&each, static_cast<Machine *>(&planned)}) {
                m->write(IA32_PERFEVTSEL0 + n, evtsel);
                m->write(IA32_A_PMC0 + n, value);
            }
        }
        unsigned mode = KERNEL;
        planned.plan(mode);
        for (unsigned step = 0; step < STEPS; step++) {
            unsigned which = random(), events = 0;
            if (random() % 16 == 0)
                planned.plan(mode = random() % MODE_COUNT);
            for (Machine *m : {&each, static_cast<Machine *>(&planned)})
                events = happens(&m->events, mode, which);
            each.run(mode, 1);
            planned.retired[mode]++;
            if (planned.due(mode, events)) {
                planned.pmu.look(planned.events.instructions());
                planned.plan(mode);
                looks++;
            }
            CHECK_EQUAL(planned.read(IA32_PERF_GLOBAL_STATUS), each.read(IA32_PERF_GLOBAL_STATUS));
        }
        overflows += __builtin_popcountll(each.read(IA32_PERF_GLOBAL_STATUS) & ALL_COUNTERS);
    }
    CHECK(overflows > MACHINES);
    CHECK(looks < MACHINES * STEPS / 2);
}

}  // namespace
