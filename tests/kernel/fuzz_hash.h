/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Both fuzzers' hash: one word more.
 */
#pragma once

#include <stdint.h>

#define HASH_BASIS 0xcbf29ce484222325ULL
#define HASH_PRIME 0x100000001b3ULL

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * HASH_PRIME;
    return hash ^ hash >> 32;
}
