// SPDX-License-Identifier: BSD-2-Clause
//
// Adds up the processors' ledgers and writes the file.
#include "bochs.h"
#include "cpu.h"
#include "pc_system.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "fork_server.h"
#include "knobs.h"
#include "ledger_json.h"
#include "processor.h"

void ledger_write(const char *end)
{
    const char *path = std::getenv("TB_LEDGER");
    LedgerSummary summary;
    std::vector<const LineLog *> logs;

    if (!path)
        return;
    summary.end = end;
    summary.cpus = processor_count();
    summary.forked_at = fork_server_forked_at();
    summary.ticks = bx_pc_system.time_ticks();
    summary.lines_wanted = knobs().exit_lines;
    summary.paths_wanted = knobs().exit_paths;
    for (unsigned n = 0; n < processor_count(); n++) {
        Ledger &ledger = processor(n).ledger;
        logs.push_back(&processor(n).lines);
        summary.processors.push_back(ledger.total());
        summary.total.merge(summary.processors.back());
        summary.stray_ends += ledger.stray_ends();
        summary.nmis_fired += processor(n).injector.fired();
        summary.nmis_missed += processor(n).injector.missed();
        for (const auto &[id, tally] : ledger.regions())
            summary.regions[id].merge(tally);
    }
    summary.lines = lines_summary(logs);
    std::string text = ledger_json(summary);
    FILE *file = std::fopen(path, "w");
    if (!file || std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fclose(file))
        std::fprintf(stderr, "testbed: %s: cannot write the ledger\n", path);
}
