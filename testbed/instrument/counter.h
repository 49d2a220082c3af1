/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One 48-bit counter: its value is that of the moment it was last started plus the events since.
 * Knows only numbers; `now` is always what EventCounts::count() says for the counter's selector.
 * SDM Vol. 3, "Architectural Performance Monitoring".
 */
#pragma once

#include <cstdint>

constexpr unsigned COUNTER_WIDTH = 48;
constexpr uint64_t COUNTER_LIMIT = uint64_t{1} << COUNTER_WIDTH;
constexpr uint64_t COUNTER_MASK = COUNTER_LIMIT - 1;

class Counter {
public:
    bool running() const { return running_; }

    /* The value that RDPMC would return. */
    uint64_t read(uint64_t now) const { return raw(now) & COUNTER_MASK; }

    /* Sets the value; a running counter goes on from `from`. */
    void write(uint64_t value, uint64_t from)
    {
        value_ = value & COUNTER_MASK;
        base_ = from;
    }

    /* Starts to count the events after `from`. */
    void start(uint64_t from)
    {
        base_ = from;
        running_ = true;
    }

    /* Stops. An overflow that nobody has taken yet is lost: take it before. */
    void stop(uint64_t now)
    {
        value_ = read(now);
        running_ = false;
    }

    /* True once for each passing of 2^48. */
    bool take_overflow(uint64_t now)
    {
        uint64_t value = raw(now);

        if (value < COUNTER_LIMIT)
            return false;
        value_ = value & COUNTER_MASK;
        base_ = now;
        return true;
    }

    /* Events until the overflow, at least 1. */
    uint64_t left(uint64_t now) const
    {
        uint64_t value = raw(now);

        return value < COUNTER_LIMIT ? COUNTER_LIMIT - value : 1;
    }

private:
    uint64_t raw(uint64_t now) const
    {
        // `from` may lie one event ahead: a VM entry does not count.
        if (!running_ || static_cast<int64_t>(now - base_) < 0)
            return value_;
        return value_ + (now - base_);
    }

    uint64_t value_ = 0;
    uint64_t base_ = 0;
    bool running_ = false;
};
