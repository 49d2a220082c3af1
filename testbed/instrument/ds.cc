// SPDX-License-Identifier: BSD-2-Clause
#include "ds.h"

DsResult ds_append(DsMemory &memory, uint64_t area, uint64_t which,
                   const std::vector<uint64_t> &record, bool circular)
{
    uint64_t buffer = area + which;
    uint64_t index = memory.read(buffer + DS_FIELD);
    uint64_t maximum = memory.read(buffer + 2 * DS_FIELD);
    uint64_t threshold = memory.read(buffer + 3 * DS_FIELD);
    uint64_t size = record.size() * DS_FIELD;

    if (circular && index + size > maximum)
        index = memory.read(buffer);
    if (index + size > maximum)
        return DS_FULL;
    for (uint64_t n = 0; n < record.size(); n++)
        memory.write(index + n * DS_FIELD, record[n]);
    index += size;
    memory.write(buffer + DS_FIELD, index);
    return index >= threshold ? DS_THRESHOLD : DS_STORED;
}
