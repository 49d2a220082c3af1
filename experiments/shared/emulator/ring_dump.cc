// SPDX-License-Identifier: BSD-2-Clause
//
// Looks at the first words of each page for a ring. A page that only begins like one, such as a
// copy, is told by sizes that cannot be: records past the end of memory.
#include "ring_dump.h"

#include <cstdio>
#include <cstring>

namespace {

struct RingHeader {
    uint64_t magic;
    uint32_t version;
    uint32_t record_bytes;
    uint64_t capacity;
};

// The bytes of the ring at this page with its header; 0: there is none.
uint64_t ring_bytes(const uint8_t *at, uint64_t room)
{
    RingHeader header;

    std::memcpy(&header, at, sizeof(header));
    if (header.magic != RING_DUMP_MAGIC || header.version != RING_DUMP_VERSION ||
        header.record_bytes == 0 || header.capacity == 0 || room < RING_DUMP_PAGE ||
        header.capacity > (room - RING_DUMP_PAGE) / header.record_bytes)
        return 0;
    return RING_DUMP_PAGE + header.capacity * header.record_bytes;
}

bool copy(FILE *out, uint64_t first, uint64_t end, const MachineMemory &memory)
{
    static const uint8_t zero[RING_DUMP_PAGE] = {};

    for (uint64_t at = first; at < end; at += RING_DUMP_PAGE) {
        const uint8_t *from = memory.page(at);
        if (std::fwrite(from ? from : zero, RING_DUMP_PAGE, 1, out) != 1)
            return false;
    }
    return true;
}

class RingPart : public Part {
public:
    void end(const MachineMemory &memory) override
    {
        if (ring_dump(value, memory) < 0)
            std::fprintf(stderr, "testbed: %s: cannot write it\n", value.c_str());
    }
};

}  // namespace

Part &trace_rings_part()
{
    static RingPart part;

    return part;
}

int ring_dump(const std::string &path, const MachineMemory &memory)
{
    FILE *out = std::fopen(path.c_str(), "wb");
    int found = 0;
    bool good = out != nullptr;

    for (uint64_t at = 0; good && at + RING_DUMP_PAGE <= memory.bytes;) {
        const uint8_t *from = memory.page(at);
        uint64_t size = from ? ring_bytes(from, memory.bytes - at) : 0;
        if (size > 0) {
            good = copy(out, at, at + size, memory);
            found++;
        }
        // On to the next page after it.
        at += size > 0 ? (size + RING_DUMP_PAGE - 1) / RING_DUMP_PAGE * RING_DUMP_PAGE
                       : RING_DUMP_PAGE;
    }
    if (out && std::fclose(out) != 0)
        good = false;
    return good ? found : -1;
}
