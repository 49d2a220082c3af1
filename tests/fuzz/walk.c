/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: the walk of a guest's page tables. Input: the linear address, flags, CR3, then the
 * guest's memory from address 0 on.
 */
#include "mm/guest_walk.h"

#include "boot_info.h"
#include "fuzz.h"
#include "msr.h"
#include "x86.h"

#define READS_MAX 5 /* levels */
#define ADDRESS_LIMIT (1ULL << 52)

struct memory {
    const uint8_t *bytes;
    uint64_t size;
    unsigned reads;
};

static bool read_entry(void *context, uint64_t address, unsigned bytes, uint64_t *value)
{
    struct memory *m = context;

    CHECK((bytes == 4 || bytes == 8) && address % bytes == 0, "%u bytes at 0x%lx", bytes,
          (unsigned long)address);
    CHECK(address < ADDRESS_LIMIT, "0x%lx", (unsigned long)address);
    CHECK(++m->reads <= READS_MAX, "%u reads", m->reads);
    if (m->size < bytes || address > m->size - bytes)
        return false;
    *value = 0;
    memcpy(value, m->bytes + address, bytes);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint64_t linear = take_u64(&in), physical, again;
    uint8_t flags = take_u8(&in);
    struct guest_paging paging = {
        .cr0 = flags & 1 ? 0 : CR0_PG,
        .cr4 = (flags & 2 ? CR4_PAE : 0) | (flags & 4 ? CR4_PSE : 0) | (flags & 8 ? CR4_LA57 : 0),
        .efer = flags & 16 ? EFER_LMA : 0,
        .cr3 = take_u64(&in),
    };
    /* IA-32e mode has paging and PAE on (SDM Vol. 3, "Paging-Mode Enabling"). */
    if (paging.efer & EFER_LMA) {
        paging.cr0 |= CR0_PG;
        paging.cr4 |= CR4_PAE;
    }
    uint8_t *copy = exactly(in.data, in.left);
    struct memory m = {copy, in.left, 0};

    if (guest_walk(&paging, linear, read_entry, &m, &physical)) {
        CHECK(physical < ADDRESS_LIMIT, "0x%lx", (unsigned long)physical);
        CHECK(physical % PAGE_SIZE == linear % PAGE_SIZE, "0x%lx of 0x%lx", (unsigned long)physical,
              (unsigned long)linear);
        /* Another address in the same page is in the same page. */
        m.reads = 0;
        CHECK(guest_walk(&paging, linear ^ (PAGE_SIZE - 1), read_entry, &m, &again) &&
                  again == (physical ^ (PAGE_SIZE - 1)),
              "the page's other end");
    }
    free(copy);
    return 0;
}
