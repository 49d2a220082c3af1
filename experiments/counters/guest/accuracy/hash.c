/* SPDX-License-Identifier: BSD-2-Clause
 * hash.c: the program `hash`: counts keys in a hash table with open addressing. A table of 4 MiB,
 * larger than the near cache and smaller than the last level; the keys come from a smaller range,
 * so that many are found.
 */
#include "accuracy.h"

#include <stdlib.h>

#define SLOTS (1u << 18)
#define KEY_RANGE (SLOTS / 2)
#define KEYS_PER_SHARE 25000u
#define GOLDEN_RATIO 0x9e3779b97f4a7c15u /* spreads neighbouring keys over the table */
#define HASH_SHIFT 46                    /* the highest 18 bits of 64 */

struct slot {
    uint64_t key; /* 0: empty */
    uint64_t count;
};

struct hash {
    uint64_t shares;
    uint64_t random;
    struct slot slots[SLOTS];
};

static void *prepare(const struct work *work)
{
    struct hash *hash = pages_get(sizeof(*hash), work);

    if (hash != NULL) {
        hash->shares = work->shares;
        hash->random = work->seed;
    }
    return hash;
}

static uint64_t run(void *data)
{
    struct hash *hash = data;
    uint64_t found = 0;

    for (uint64_t i = 0; i < hash->shares * KEYS_PER_SHARE; i++) {
        uint64_t key = next_random(&hash->random) % KEY_RANGE + 1;
        uint64_t at = key * GOLDEN_RATIO >> HASH_SHIFT;

        while (hash->slots[at].key != key && hash->slots[at].key != 0)
            at = (at + 1) % SLOTS;
        found += hash->slots[at].key == key;
        hash->slots[at].key = key;
        hash->slots[at].count++;
    }
    return found;
}

static void release(void *data) { pages_put(data, sizeof(struct hash)); }

const struct program hash_program = {
    .name = "hash",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
