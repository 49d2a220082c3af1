/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which cache lines root mode touches between a VM exit and the next entry, by exit reason, and
 * which of them one processor writes while another one reads or writes them. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <map>
#include <vector>

class LineLog {
public:
    enum { READ = 1, WRITTEN = 2 };

    void access(uint64_t address, unsigned length, bool write);
    /* The entry after an exit of that reason: what was accessed since the last one is kept. An
     * exit without an entry (a power-off) leaves nothing. */
    void entry(unsigned reason);
    /* By reason: the line's number (address / LINE_BYTES) and what was done to it. */
    const std::map<unsigned, std::map<uint64_t, unsigned>> &touched() const { return touched_; }

private:
    std::map<uint64_t, unsigned> pending_;
    std::map<unsigned, std::map<uint64_t, unsigned>> touched_;
};

constexpr unsigned LINE_BYTES = 64;
/* So many addresses of shared lines are listed. */
constexpr unsigned SHARED_LISTED = 8;

struct LineSummary {
    uint64_t touched = 0; /* lines that any processor reads or writes */
    uint64_t written = 0;
    uint64_t shared = 0;             /* of those written, touched by more than one processor */
    std::vector<uint64_t> addresses; /* of the first shared ones */
};

/* By reason; LINES_ANY has all reasons together. */
constexpr unsigned LINES_ANY = ~0u;
std::map<unsigned, LineSummary> lines_summary(const std::vector<const LineLog *> &logs);
