/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the tests of both kinds of branch records need.
 */
#pragma once

#include "branch_records.h"
#include "check.h"

inline uint64_t read(const BranchRecords &records, uint32_t index)
{
    uint64_t value = 0;
    CHECK_EQUAL(records.read_msr(index, &value), MSR_DONE);
    return value;
}

inline Branch make(BranchKind kind, uint64_t from, bool user = true, bool miss = false,
                   uint64_t cycles = 0)
{
    return {kind, from, from + 0x100, user, miss, cycles};
}
