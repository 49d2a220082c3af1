/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A PMU with a processor around it that does nothing but retire instructions.
 */
#pragma once

#include "check.h"
#include "msr_index.h"
#include "pmu.h"

constexpr unsigned KERNEL = 0;
constexpr unsigned USER = MODE_USER_BIT;
constexpr uint64_t EVENT_USR = PERFEVTSEL_USR | PERFEVTSEL_EN;
constexpr uint64_t INSTRUCTIONS = 0xc0;

// A processor that only counts.
struct Machine {
    uint64_t retired[MODE_COUNT] = {};
    uint64_t iterations[MODE_COUNT] = {};
    EventCounts events;
    Pmu pmu;

    explicit Machine(const PmuShape &shape = PmuShape()) : pmu(events, shape)
    {
        events.retired = retired;
        events.iterations = iterations;
        pmu.reset();
    }
    // One instruction at a time, as the emulator does it.
    unsigned run(unsigned mode, unsigned count)
    {
        unsigned pmis = 0;
        while (count-- > 0) {
            retired[mode]++;
            pmu.look(events.instructions());
            pmis += pmu.take_pmi(events.instructions());
        }
        return pmis;
    }
    // A WRMSR in kernel mode that retires.
    MsrResult write(uint32_t index, uint64_t value)
    {
        MsrResult result = pmu.write_msr(index, value);
        if (result == MSR_DONE)
            run(KERNEL, 1);
        return result;
    }
    uint64_t read(uint32_t index)
    {
        uint64_t value = 0;
        CHECK_EQUAL(pmu.read_msr(index, &value), MSR_DONE);
        return value;
    }
};
