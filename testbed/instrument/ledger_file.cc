// SPDX-License-Identifier: BSD-2-Clause
//
// Adds up the processors' ledgers and writes the file.
#include "bochs.h"
#include "cpu.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ledger_json.h"
#include "processor.h"

void ledger_write(const char *end)
{
    const char *path = std::getenv("TB_LEDGER");
    LedgerSummary summary;

    if (!path)
        return;
    summary.end = end;
    summary.cpus = processor_count();
    for (unsigned n = 0; n < processor_count(); n++) {
        const Ledger &ledger = processor(n).ledger;
        summary.total.merge(ledger.total());
        summary.stray_ends += ledger.stray_ends();
        summary.nmis_fired += processor(n).injector.fired();
        summary.nmis_missed += processor(n).injector.missed();
        for (const auto &[id, tally] : ledger.regions())
            summary.regions[id].merge(tally);
    }
    std::string text = ledger_json(summary);
    FILE *file = std::fopen(path, "w");
    if (!file || std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fclose(file))
        std::fprintf(stderr, "testbed: %s: cannot write the ledger\n", path);
}
