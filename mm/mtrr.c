/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What memory type the MTRRs give to a range of physical memory. Pure arithmetic on a copy of the
 * registers; mtrr_read.c makes that copy.
 * SDM Vol. 3, "Memory Type Range Registers (MTRRs)" and "MTRR Precedences".
 */
#include "mm.h"
#include "mtrr.h"

#define PHYSICAL_ADDRESS_BITS_MAX 52

/* The answer for what was looked at so far: one type, or nothing looked at yet. */
struct answer {
    bool known;
    enum memory_type type;
};

/* No MTRR can hold a reserved encoding; UC is the type that is never wrong, only slow. */
static enum memory_type checked_type(uint64_t encoding)
{
    switch (encoding) {
    case MEMORY_WC:
    case MEMORY_WT:
    case MEMORY_WP:
    case MEMORY_WB:
        return (enum memory_type)encoding;
    default:
        return MEMORY_UC;
    }
}

/* Two variable ranges over one address: same type, or UC wins, or WT over WB. All else is
 * undefined, and UC is taken. The rule for three and more follows by applying it in turn. */
static enum memory_type overlap_type(enum memory_type a, enum memory_type b)
{
    if (a == b)
        return a;
    if ((a == MEMORY_WT && b == MEMORY_WB) || (a == MEMORY_WB && b == MEMORY_WT))
        return MEMORY_WT;
    return MEMORY_UC;
}

/* Adds one more part of a range; false when its type is not that of the others. */
static bool agree(struct answer *a, enum memory_type type)
{
    if (a->known)
        return a->type == type;
    a->known = true;
    a->type = type;
    return true;
}

static uint64_t address_mask(const struct mtrr_state *m)
{
    uint32_t bits = m->physical_address_bits;

    if (bits > PHYSICAL_ADDRESS_BITS_MAX)
        bits = PHYSICAL_ADDRESS_BITS_MAX;
    return (1ULL << bits) - 1;
}

/* Variable ranges and default type for all addresses that have the bits of `base` where `free` is
 * 0 and any bits where `free` is 1. A pair of registers then matches all of them, none, or some;
 * where "some" matters the set is halved at an address bit of such a pair. So the work depends on
 * the number of pairs, not on the size of the set, and a mask with holes, which the SDM allows,
 * needs no special care. */
static bool variable_type(const struct mtrr_state *m, uint64_t base, uint64_t free,
                          struct answer *answer)
{
    uint64_t address_bits = address_mask(m) >> MTRR_ADDRESS_SHIFT << MTRR_ADDRESS_SHIFT;
    enum memory_type default_type = checked_type(m->default_type & MTRR_DEF_TYPE_TYPE);
    enum memory_type all = default_type; /* by the pairs that match all addresses */
    bool any_matches_all = false;
    uint64_t undecided = 0; /* free bits that a pair which matches some addresses looks at */
    bool matters = false;

    for (uint32_t i = 0; i < m->variable_count; i++) {
        uint64_t mask = m->variable[i].mask & address_bits;
        enum memory_type type = checked_type(m->variable[i].base & MTRR_PHYSBASE_TYPE);

        if (!(m->variable[i].mask & MTRR_PHYSMASK_V) ||
            ((base ^ m->variable[i].base) & mask & ~free) != 0)
            continue;
        if ((mask & free) != 0) {
            undecided |= mask & free;
        } else {
            all = any_matches_all ? overlap_type(all, type) : type;
            any_matches_all = true;
        }
    }
    for (uint32_t i = 0; i < m->variable_count && undecided != 0; i++) {
        uint64_t mask = m->variable[i].mask & address_bits;
        enum memory_type type = checked_type(m->variable[i].base & MTRR_PHYSBASE_TYPE);

        if (!(m->variable[i].mask & MTRR_PHYSMASK_V) || (mask & free) == 0 ||
            ((base ^ m->variable[i].base) & mask & ~free) != 0)
            continue;
        if ((any_matches_all ? overlap_type(all, type) : type) != all)
            matters = true;
    }
    if (!matters)
        return agree(answer, all);

    uint64_t bit = 1ULL << (63 - __builtin_clzll(undecided));

    return variable_type(m, base, free & ~bit, answer) &&
           variable_type(m, base | bit, free & ~bit, answer);
}

/* One address below MTRR_FIX_END; *end gets the end of the fixed range that holds it. */
static enum memory_type fixed_type(const struct mtrr_state *m, uint64_t address, uint64_t *end)
{
    uint64_t start, unit, first;

    if (address < MTRR_FIX_16K_START) {
        start = 0;
        unit = MTRR_FIX_64K;
        first = MTRR_FIX_64K_FIRST;
    } else if (address < MTRR_FIX_4K_START) {
        start = MTRR_FIX_16K_START;
        unit = MTRR_FIX_16K;
        first = MTRR_FIX_16K_FIRST;
    } else {
        start = MTRR_FIX_4K_START;
        unit = MTRR_FIX_4K;
        first = MTRR_FIX_4K_FIRST;
    }

    uint64_t n = (address - start) / unit;
    uint64_t shift = n % MTRR_FIX_TYPES * MTRR_FIX_TYPE_BITS;

    *end = start + (n + 1) * unit;
    return checked_type(m->fixed[first + n / MTRR_FIX_TYPES] >> shift & MTRR_PHYSBASE_TYPE);
}

/* The largest aligned power of two that starts at `address` and does not pass `end`. */
static uint64_t aligned_block(uint64_t address, uint64_t end)
{
    uint64_t block = address == 0 ? 1ULL << PHYSICAL_ADDRESS_BITS_MAX : address & -address;

    while (block > end - address)
        block /= 2;
    return block;
}

/* An empty range, and one with addresses that the processor does not have, is of no type. */
bool mtrr_type(const struct mtrr_state *m, uint64_t base, uint64_t size, enum memory_type *type)
{
    uint64_t limit = address_mask(m) + 1;
    struct answer answer = { .known = false };

    if (size == 0 || base >= limit || size > limit - base)
        return false;
    if (!(m->default_type & MTRR_DEF_TYPE_E)) {
        *type = MEMORY_UC;
        return true;
    }

    uint64_t address = base;
    uint64_t end = base + size;

    /* Where fixed ranges are enabled, they hide the variable ones. */
    if ((m->capability & MTRRCAP_FIX) && (m->default_type & MTRR_DEF_TYPE_FE)) {
        while (address < end && address < MTRR_FIX_END) {
            if (!agree(&answer, fixed_type(m, address, &address)))
                return false;
        }
    }
    while (address < end) {
        uint64_t block = aligned_block(address, end);

        if (!variable_type(m, address, block - 1, &answer))
            return false;
        address += block;
    }
    *type = answer.type;
    return true;
}
