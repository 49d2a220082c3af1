/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A cache as simulators of traces have it: of one level, the least recently used line of a set
 * leaves, a write takes its line in. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <vector>

class SmallCache {
public:
    static constexpr uint64_t LINE = 64;

    SmallCache(uint64_t bytes, unsigned ways) : ways_(ways), sets_(bytes / LINE / ways)
    {
        forget();
    }

    void forget() { lines_.assign(sets_ * ways_, EMPTY); }

    /* Bytes from an address on; gives whether one of their lines was not there. */
    bool misses(uint64_t address, uint32_t bytes)
    {
        bool missed = false;

        for (uint64_t line = address / LINE; line <= (address + bytes - 1) / LINE; line++)
            missed |= !touch(line);
        return missed;
    }

private:
    static constexpr uint64_t EMPTY = ~uint64_t{0};

    bool touch(uint64_t line)
    {
        uint64_t *set = &lines_[line % sets_ * ways_];
        unsigned at = 0;

        while (at < ways_ - 1 && set[at] != line)
            at++;
        bool there = set[at] == line;
        for (; at > 0; at--)
            set[at] = set[at - 1];
        set[0] = line;
        return there;
    }

    const unsigned ways_;
    const uint64_t sets_;
    std::vector<uint64_t> lines_; /* of each set, the one used last first */
};
