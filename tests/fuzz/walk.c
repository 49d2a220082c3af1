/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: the walk of a guest's page tables. Input: the linear address, a byte whose lowest
 * bit says how many levels, CR3, then the guest's memory from address 0 on.
 */
#include "mm/guest_walk.h"

#include "boot_info.h"
#include "fuzz.h"
#include "x86.h"

#define ADDRESS_LIMIT (1ULL << 52)

struct memory {
    const uint8_t *bytes;
    uint64_t size;
    unsigned reads, levels;
    uint64_t *entry; /* a copy, since the input need not be aligned */
};

static const void *memory_at(void *context, uint64_t address)
{
    struct memory *m = context;

    CHECK(address % sizeof(uint64_t) == 0 && address < ADDRESS_LIMIT, "0x%lx",
          (unsigned long)address);
    CHECK(++m->reads <= m->levels, "%u reads", m->reads);
    if (m->size < sizeof(uint64_t) || address > m->size - sizeof(uint64_t))
        return NULL;
    memcpy(m->entry, m->bytes + address, sizeof(uint64_t));
    return m->entry;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint64_t linear = take_u64(&in), physical, again, entry;
    unsigned levels = TABLE_LEVELS + (take_u8(&in) & 1);
    uint64_t cr3 = take_u64(&in);
    struct memory m = {.bytes = in.data, .size = in.left, .levels = levels, .entry = &entry};

    if (guest_walk(cr3, levels, linear, memory_at, &m, &physical)) {
        CHECK(physical < ADDRESS_LIMIT, "0x%lx", (unsigned long)physical);
        CHECK(physical % PAGE_SIZE == linear % PAGE_SIZE, "0x%lx of 0x%lx", (unsigned long)physical,
              (unsigned long)linear);
        /* Another address in the same page is in the same page. */
        m.reads = 0;
        CHECK(guest_walk(cr3, levels, linear ^ (PAGE_SIZE - 1), memory_at, &m, &again) &&
                  again == (physical ^ (PAGE_SIZE - 1)),
              "the page's other end");
    }
    return 0;
}
