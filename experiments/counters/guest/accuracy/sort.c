/* SPDX-License-Identifier: BSD-2-Clause
 * sort.c: the program `sort`: heapsort of random keys, new ones for each share. Branches that no
 * predictor can know, in a small working set.
 */
#include "accuracy.h"

#include <stdlib.h>

#define KEYS 4096u

struct sort {
    uint64_t shares;
    uint64_t random;
    uint64_t keys[KEYS];
};

static void *prepare(const struct work *work)
{
    struct sort *sort = pages_get(sizeof(*sort), work);

    if (sort != NULL) {
        sort->shares = work->shares;
        sort->random = work->seed;
    }
    return sort;
}

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t held = *a;

    *a = *b;
    *b = held;
}

/* Moves the key at the root down until it is at least as large as both of its children. */
static void sift_down(uint64_t *keys, size_t root, size_t count)
{
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && keys[child] < keys[child + 1])
            child++;
        if (keys[root] >= keys[child])
            return;
        swap(&keys[root], &keys[child]);
        root = child;
    }
}

static uint64_t run(void *data)
{
    struct sort *sort = data;
    uint64_t *keys = sort->keys;
    uint64_t misplaced = 0;

    for (uint64_t share = 0; share < sort->shares; share++) {
        for (size_t i = 0; i < KEYS; i++)
            keys[i] = next_random(&sort->random);
        for (size_t root = KEYS / 2; root-- > 0;)
            sift_down(keys, root, KEYS);
        for (size_t last = KEYS - 1; last > 0; last--) {
            swap(&keys[0], &keys[last]);
            sift_down(keys, 0, last);
        }
        for (size_t i = 1; i < KEYS; i++)
            misplaced += keys[i - 1] > keys[i];
    }
    return misplaced;
}

static void release(void *data) { pages_put(data, sizeof(struct sort)); }

const struct program sort_program = {
    .name = "sort",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
