/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A second, naive reading of the SDM's MTRR rules for the tests: one address at a time, the set of
 * matching types first and the verdict after. Shares no code and no constant with mm/mtrr.c.
 * SDM Vol. 3, "MTRR Precedences".
 */
#pragma once

#include "mm/mm.h"
#include "random.h"

#define MODEL_E (1ULL << 11)
#define MODEL_FE (1ULL << 10)
#define MODEL_FIX (1ULL << 8)
#define MODEL_V (1ULL << 11)

static const enum memory_type model_types[] = {MEMORY_UC, MEMORY_WC, MEMORY_WT, MEMORY_WP,
                                               MEMORY_WB};

static inline enum memory_type model_type(const struct mtrr_state *m, uint64_t address)
{
    if (!(m->default_type & MODEL_E))
        return MEMORY_UC;
    if ((m->capability & MODEL_FIX) && (m->default_type & MODEL_FE) && address < 0x100000) {
        const uint8_t *types = (const uint8_t *)m->fixed;

        if (address < 0x80000)
            return types[address >> 16];
        if (address < 0xc0000)
            return types[8 + ((address - 0x80000) >> 14)];
        return types[24 + ((address - 0xc0000) >> 12)];
    }

    unsigned seen = 0; /* bit t: a range of type t matches */
    uint64_t top = 1ULL << m->physical_address_bits;

    for (uint32_t i = 0; i < m->variable_count; i++) {
        uint64_t mask = m->variable[i].mask % top & ~0xfffULL;

        if ((m->variable[i].mask & MODEL_V) && (address & mask) == (m->variable[i].base & mask))
            seen |= 1u << (m->variable[i].base & 0xff);
    }
    if (seen == 0)
        return m->default_type & 0xff;
    for (unsigned type = 0; type < 8; type++)
        if (seen == 1u << type)
            return type;
    return seen == (1u << MEMORY_WT | 1u << MEMORY_WB) ? MEMORY_WT : MEMORY_UC;
}

static inline enum memory_type model_random_type(void)
{
    return model_types[random_below(sizeof(model_types) / sizeof(model_types[0]))];
}

/* A random set whose ranges lie below `limit` (a power of two); `holes`: masks may have holes. */
static inline struct mtrr_state model_random(uint32_t bits, uint64_t limit, bool holes)
{
    struct mtrr_state m = {
        .capability = random_below(4) ? MODEL_FIX : 0,
        .default_type = (random_below(16) ? MODEL_E : 0) | (random_below(3) ? MODEL_FE : 0) |
                        model_random_type(),
        .variable_count = (uint32_t)random_below(9),
        .physical_address_bits = bits,
    };

    m.capability |= m.variable_count;
    for (unsigned i = 0; i < sizeof(m.fixed); i++)
        ((uint8_t *)m.fixed)[i] = i % 8 && random_below(4) ? ((uint8_t *)m.fixed)[i - 1]
                                                           : model_random_type();
    for (uint32_t i = 0; i < m.variable_count; i++) {
        uint64_t size = 0x1000ULL << random_below(40);
        uint64_t mask = (1ULL << bits) - 1;

        while (size > limit)
            size >>= 1 + random_below(12);
        if (size < 0x1000)
            size = 0x1000;
        mask &= ~(size - 1);
        if (holes && random_below(3) == 0)
            mask &= ~(0x1000ULL << random_below(bits - 12));
        m.variable[i].base = (random_below(limit) & ~(size - 1)) | model_random_type();
        m.variable[i].mask = mask | (random_below(8) ? MODEL_V : 0);
    }
    return m;
}
