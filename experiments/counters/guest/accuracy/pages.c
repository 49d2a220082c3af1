/* SPDX-License-Identifier: BSD-2-Clause
 * pages.c: the programs' memory, of one of two kinds. Either in large pages whose place in the
 * caches is chosen: then a program meets the same sets of them everywhere. Or as Linux gives it:
 * then which sets those are is another matter natively than in a guest. Linux,
 * Documentation/admin-guide/mm/pagemap.rst and transhuge.rst.
 */
#define _GNU_SOURCE /* mremap() */
#include "accuracy.h"

#include "programs/payload/payload.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define LARGE_BYTES (2u << 20)
#define LARGE_PAGES (LARGE_BYTES / PAGE_BYTES)
/* Large pages of as many kinds as fit side by side into the emulator's last level of cache, 8 MiB
 * and direct-mapped. On hardware a last level's sets are hashed: there it is the large page that
 * makes the difference, for the levels above. */
#define COLOURS 4u
#define CACHE_BYTES ((size_t)COLOURS * LARGE_BYTES)
#define LINE_BYTES 64u
#define SPARE_PAGES (2 * COLOURS)
#define WANTED_MAX 512u

#define LARGE_PAGES_SWITCH "/sys/kernel/mm/transparent_hugepage/enabled"

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_FRAME ((UINT64_C(1) << 55) - 1)

/* Of either kind as much, so that pages_put() need not know which it was. */
static size_t whole(size_t bytes) { return (bytes + LARGE_BYTES - 1) / LARGE_BYTES * LARGE_BYTES; }

static bool frame_of(int pagemap, const uint8_t *page, uint64_t *frame)
{
    uint64_t entry;
    off_t at = (off_t)((uintptr_t)page / PAGE_BYTES * sizeof(entry));

    if (pread(pagemap, &entry, sizeof(entry), at) != sizeof(entry) || !(entry & PAGEMAP_PRESENT))
        return false;
    *frame = entry & PAGEMAP_FRAME;
    return *frame != 0; /* what a process without the right to it reads */
}

/* The colour of a large page, or COLOURS where it is made of small ones. */
static unsigned colour_of(int pagemap, const uint8_t *large)
{
    uint64_t first, last;

    if (!frame_of(pagemap, large, &first) || first % LARGE_PAGES != 0 ||
        !frame_of(pagemap, large + LARGE_BYTES - PAGE_BYTES, &last) ||
        last != first + LARGE_PAGES - 1) {
        return COLOURS;
    }
    return first / LARGE_PAGES % COLOURS;
}

/* Address space that begins at a large page's border. */
static uint8_t *reserve(size_t bytes)
{
    uint8_t *space = mmap(NULL, bytes + LARGE_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    size_t before;

    if (space == MAP_FAILED)
        return NULL;
    before = (LARGE_BYTES - (uintptr_t)space % LARGE_BYTES) % LARGE_BYTES;
    if (before != 0)
        munmap(space, before);
    munmap(space + before + bytes, LARGE_BYTES - before);
    return space + before;
}

/* Linux has them off where there is less than 512 MiB of memory. Without any, there are none, which
 * is seen soon enough. */
static void allow_large_pages(void)
{
    const char *state = read_text(LARGE_PAGES_SWITCH);

    if (state != NULL && strstr(state, "[never]") != NULL)
        write_text(LARGE_PAGES_SWITCH, "madvise\n");
}

/* Moves the candidate to where its colour is wanted and no page is yet. */
static bool place(uint8_t *candidate, size_t first, uint8_t *pages, bool *taken, size_t wanted)
{
    for (size_t n = first; n < wanted; n += COLOURS) {
        if (!taken[n]) {
            taken[n] = mremap(candidate, LARGE_BYTES, LARGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                              pages + n * LARGE_BYTES) != MAP_FAILED;
            return taken[n];
        }
    }
    return false;
}

/* The n-th large page gets colour n + shift modulo COLOURS. */
static void *large_pages_get(size_t bytes, unsigned shift)
{
    size_t wanted = whole(bytes) / LARGE_BYTES, count = 2 * wanted + SPARE_PAGES, placed = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint8_t *pages = reserve(wanted * LARGE_BYTES), *pool = reserve(count * LARGE_BYTES);
    bool taken[WANTED_MAX] = {false};
    bool ready = pagemap >= 0 && pages != NULL && pool != NULL && wanted <= WANTED_MAX;

    allow_large_pages();
    ready = ready && mprotect(pool, count * LARGE_BYTES, PROT_READ | PROT_WRITE) == 0 &&
            madvise(pool, count * LARGE_BYTES, MADV_HUGEPAGE) == 0;
    for (size_t i = 0; ready && placed < wanted && i < count; i++) {
        uint8_t *candidate = pool + i * LARGE_BYTES;
        unsigned colour;

        *candidate = 0;
        colour = colour_of(pagemap, candidate);
        if (colour < COLOURS) {
            placed += place(candidate, (colour + COLOURS - shift % COLOURS) % COLOURS, pages, taken,
                            wanted);
        }
    }
    if (pool != NULL)
        munmap(pool, count * LARGE_BYTES);
    if (pagemap >= 0)
        close(pagemap);
    if (placed == wanted)
        return pages;
    if (pages != NULL)
        munmap(pages, wanted * LARGE_BYTES);
    return NULL;
}

void *pages_get(size_t bytes, const struct work *work)
{
    void *pages;

    if (work->pages == PAGES_PLACED)
        return large_pages_get(bytes, work->place);
    pages = mmap(NULL, whole(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void caches_fill(void)
{
    static const volatile uint8_t *memory;

    if (memory == NULL && (memory = large_pages_get(CACHE_BYTES, 0)) == NULL)
        return; /* such passes begin with the caches as they are */
    for (size_t i = 0; i < CACHE_BYTES; i += LINE_BYTES)
        (void)memory[i];
}

void pages_put(void *pages, size_t bytes) { munmap(pages, whole(bytes)); }
