/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The stack of calls that a decoder has seen, for returns that need no TIP. SDM Vol. 3, "Intel
 * Processor Trace", section 4.2.2, "Indirect Transfer Compression for Returns (RET)": 64 calls. A
 * return that does not go to its call empties it, which a processor may do: whether a decoder takes
 * a call off its own stack then makes no difference.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

class PtReturns {
public:
    void call(uint64_t next_ip)
    {
        calls_.push_back(next_ip);
        if (calls_.size() > DEPTH)
            calls_.pop_front();
    }
    /* True: it goes to the instruction after its call. */
    bool ret(uint64_t to)
    {
        if (calls_.empty() || calls_.back() != to) {
            clear();
            return false;
        }
        calls_.pop_back();
        return true;
    }
    void clear() { calls_.clear(); }

private:
    static constexpr size_t DEPTH = 64;

    std::deque<uint64_t> calls_;
};
