// SPDX-License-Identifier: BSD-2-Clause
//
// Keeps the lines of each processor, and adds up what the processors have in common.
#include "lines.h"

void LineLog::access(uint64_t address, unsigned length, bool write)
{
    uint64_t last = (address + (length > 0 ? length - 1 : 0)) / LINE_BYTES;

    for (uint64_t line = address / LINE_BYTES; line <= last; line++)
        pending_[line] |= write ? WRITTEN : READ;
}

void LineLog::entry(unsigned reason)
{
    for (unsigned of : {reason, LINES_ANY})
        for (const auto &[line, how] : pending_)
            touched_[of][line] |= how;
    pending_.clear();
}

std::map<unsigned, LineSummary> lines_summary(const std::vector<const LineLog *> &logs)
{
    struct Users {
        unsigned processors = 0;
        bool written = false;
    };
    std::map<unsigned, std::map<uint64_t, Users>> users;
    std::map<unsigned, LineSummary> all;

    for (const LineLog *log : logs)
        for (const auto &[reason, lines] : log->touched())
            for (const auto &[line, how] : lines) {
                users[reason][line].processors++;
                users[reason][line].written |= (how & LineLog::WRITTEN) != 0;
            }
    for (const auto &[reason, lines] : users) {
        LineSummary &summary = all[reason];
        for (const auto &[line, user] : lines) {
            summary.touched++;
            summary.written += user.written;
            if (!user.written || user.processors < 2)
                continue;
            if (summary.shared++ < SHARED_LISTED)
                summary.addresses.push_back(line * LINE_BYTES);
        }
    }
    return all;
}
