/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ledger's JSON form. Knows no Bochs. The schema is in README.md, "Ledger".
 */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ledger.h"
#include "lines.h"

struct LedgerSummary {
    const char *end = "";
    unsigned cpus = 0;
    uint64_t ticks = 0;     /* of the machine's clock, from power-on */
    uint64_t forked_at = 0; /* the tick at which a server forked this run; 0: none did */
    uint64_t stray_ends = 0;
    uint64_t nmis_fired = 0;  /* scheduled NMIs that came */
    uint64_t nmis_missed = 0; /* and those whose instruction never ran */
    Tally total;
    std::vector<Tally> processors;
    bool lines_wanted = false;
    std::map<unsigned, LineSummary> lines;
    bool paths_wanted = false;
    std::map<uint32_t, Tally> regions;
};

std::string ledger_json(const LedgerSummary &summary);
