/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TB_LEDGER_H
#define TB_LEDGER_H
void ledger_write(const char *end);
#endif
