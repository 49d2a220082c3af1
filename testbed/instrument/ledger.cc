// SPDX-License-Identifier: BSD-2-Clause
#include "ledger.h"
#include <cstdio>
#include <cstdlib>
void ledger_write(const char *end)
{
    const char *path = std::getenv("TB_LEDGER");
    if (!path) return;
    FILE *f = std::fopen(path, "w");
    if (!f) return;
    std::fprintf(f, "{\"end\": \"%s\"}\n", end);
    std::fclose(f);
}
