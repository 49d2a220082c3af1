/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds the memory type that the MTRRs give a range of physical memory: pure arithmetic on a copy
 * of the registers. Making that copy executes only RDMSR and CPUID. SDM Vol. 3, "Memory Type Range
 * Registers (MTRRs)" and "MTRR Precedences".
 */
#include "mm/mm.h"
#include "msr.h"
#include "x86.h"

#define PHYSICAL_ADDRESS_BITS_MAX 52
#define FIXED_END 0x100000ULL
#define TYPES_OF_REGISTER 8 /* one byte each; the lowest byte is for the lowest range */

static const uint32_t fixed_msr[] = {
    IA32_MTRR_FIX64K_00000,    IA32_MTRR_FIX16K_80000,    IA32_MTRR_FIX16K_A0000,
    IA32_MTRR_FIX4K_C0000,     IA32_MTRR_FIX4K_C0000 + 1, IA32_MTRR_FIX4K_C0000 + 2,
    IA32_MTRR_FIX4K_C0000 + 3, IA32_MTRR_FIX4K_C0000 + 4, IA32_MTRR_FIX4K_C0000 + 5,
    IA32_MTRR_FIX4K_C0000 + 6, IA32_MTRR_FIX4K_F8000,
};
_Static_assert(LENGTH_OF(fixed_msr) == sizeof(((struct mtrr_state *)0)->fixed) / sizeof(uint64_t),
               "one place for each fixed-range MTRR");

/* The groups of fixed ranges, highest address first. */
static const struct fixed_group {
    uint64_t start; /* address of the group's first range */
    uint64_t unit;  /* size of each range of the group in bytes */
    unsigned first; /* index of the group's first register in fixed_msr[] */
} fixed_groups[] = {{0xc0000, 0x1000, 3}, {0x80000, 0x4000, 1}, {0, 0x10000, 0}};

void mtrr_read(struct mtrr_state *m)
{
    *m = (struct mtrr_state){.physical_address_bits = cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax &
                                                      0xff};
    if (!(cpuid(1, 0).edx & CPUID_1_EDX_MTRR)) {
        /* Without MTRRs the paging structures alone set the type. A default type of WB has the same
         * effect. */
        m->default_type = MTRR_DEF_TYPE_E | MEMORY_WB;
        return;
    }
    m->capability = rdmsr(IA32_MTRRCAP);
    m->default_type = rdmsr(IA32_MTRR_DEF_TYPE);
    for (uint32_t i = 0; i < LENGTH_OF(fixed_msr) && m->capability & MTRRCAP_FIX; i++)
        m->fixed[i] = rdmsr(fixed_msr[i]);
    m->variable_count = m->capability & MTRRCAP_VCNT;
    if (m->variable_count > MTRR_VARIABLE_MAX)
        m->variable_count = MTRR_VARIABLE_MAX; /* no MSR index exists for further pairs */
    for (uint32_t i = 0; i < m->variable_count; i++) {
        m->variable[i].base = rdmsr(IA32_MTRR_PHYSBASE0 + 2 * i);
        m->variable[i].mask = rdmsr(IA32_MTRR_PHYSMASK0 + 2 * i);
    }
}

/* Returns UC for a reserved encoding, which no MTRR can hold: UC is never wrong, only slow. */
static enum memory_type decode_memory_type(uint64_t encoding)
{
    bool reserved = encoding > MEMORY_WB || encoding == 2 || encoding == 3;

    return reserved ? MEMORY_UC : (enum memory_type)encoding;
}

/* Returns the type of memory that two variable ranges cover. If both types are the same, that type
 * stays. UC wins over all types, and WT wins over WB. All other pairs are undefined, and UC is
 * taken. For three and more ranges, the rule is applied to one range after the other. */
static enum memory_type combine_types(enum memory_type a, enum memory_type b)
{
    if (a == b)
        return a;
    return (a == MEMORY_WT && b == MEMORY_WB) || (a == MEMORY_WB && b == MEMORY_WT) ? MEMORY_WT
                                                                                    : MEMORY_UC;
}

/* Adds one more part of a range. Returns false if the part's type differs from the type of the
 * earlier parts. */
#define NOTHING_SEEN (-1)
static bool merge_uniform_type(int *so_far, enum memory_type type)
{
    if (*so_far == NOTHING_SEEN)
        *so_far = (int)type;
    return *so_far == (int)type;
}

static uint64_t physical_address_mask(const struct mtrr_state *m)
{
    uint32_t bits = m->physical_address_bits;

    return (1ULL << (bits < PHYSICAL_ADDRESS_BITS_MAX ? bits : PHYSICAL_ADDRESS_BITS_MAX)) - 1;
}

/* Finds the type that variable ranges and the default type give to a set of addresses. Returns
 * false if the set has more than one type. The set has all addresses that equal `base` in the bits
 * where `free` is 0. A pair of registers matches all addresses of the set, none, or some. If a pair
 * that matches some addresses can change the type, the set is halved at an address bit of such a
 * pair. So the work depends on the number of pairs, not on the size of the set. A mask with holes,
 * which the SDM allows, needs no special care. */
static bool get_variable_type(const struct mtrr_state *m, uint64_t base, uint64_t free, int *answer)
{
    enum memory_type all = decode_memory_type(m->default_type & MTRR_TYPE); /* if no pair matches */
    bool any_matches_all = false, matters = false;
    /* `undecided` and `some` describe the pairs that match only some addresses of the set:
     * the bits of `free` that decide whether an address matches, and a bit for each pair's type. */
    uint64_t undecided = 0;
    uint32_t some = 0;

    for (uint32_t i = 0; i < m->variable_count; i++) {
        uint64_t mask = m->variable[i].mask & physical_address_mask(m) & MTRR_ADDRESS;
        enum memory_type type = decode_memory_type(m->variable[i].base & MTRR_TYPE);

        if (!(m->variable[i].mask & MTRR_PHYSMASK_V) ||
            ((base ^ m->variable[i].base) & mask & ~free) != 0)
            continue;
        if ((mask & free) != 0) {
            undecided |= mask & free;
            some |= 1u << type;
        } else {
            all = any_matches_all ? combine_types(all, type) : type;
            any_matches_all = true;
        }
    }
    for (unsigned type = MEMORY_UC; type <= MEMORY_WB; type++)
        if (some & 1u << type && (any_matches_all ? combine_types(all, type) : type) != all)
            matters = true;
    if (!matters)
        return merge_uniform_type(answer, all);

    uint64_t bit = 1ULL << (63 - __builtin_clzll(undecided));

    return get_variable_type(m, base, free & ~bit, answer) &&
           get_variable_type(m, base | bit, free & ~bit, answer);
}

/* Returns the type of one address below FIXED_END. Stores the end of the address's fixed range in
 * *end. */
static enum memory_type get_fixed_type(const struct mtrr_state *m, uint64_t address, uint64_t *end)
{
    const struct fixed_group *group = fixed_groups;

    while (address < group->start)
        group++;
    uint64_t n = (address - group->start) / group->unit;
    *end = group->start + (n + 1) * group->unit;
    return decode_memory_type(
        m->fixed[group->first + n / TYPES_OF_REGISTER] >> n % TYPES_OF_REGISTER * 8 & MTRR_TYPE);
}

/* Returns the size of the largest aligned block that starts at `address` and does not pass `end`.
 * The size is a power of two. */
static uint64_t aligned_block_size(uint64_t address, uint64_t end)
{
    uint64_t block = address == 0 ? 1ULL << PHYSICAL_ADDRESS_BITS_MAX : address & -address;

    while (block > end - address)
        block /= 2;
    return block;
}

/* An empty range has no type. A range with addresses that the processor lacks has no type
 * either. */
bool mtrr_lookup_type(const struct mtrr_state *m, uint64_t base, uint64_t size,
                      enum memory_type *type)
{
    uint64_t limit = physical_address_mask(m) + 1, address = base, end = base + size;
    int answer = NOTHING_SEEN;

    if (size == 0 || base >= limit || size > limit - base)
        return false;
    if (!(m->default_type & MTRR_DEF_TYPE_E)) {
        *type = MEMORY_UC;
        return true;
    }

    /* Enabled fixed ranges override variable ranges. */
    bool fixed = m->capability & MTRRCAP_FIX && m->default_type & MTRR_DEF_TYPE_FE;
    while (fixed && address < end && address < FIXED_END)
        if (!merge_uniform_type(&answer, get_fixed_type(m, address, &address)))
            return false;
    while (address < end) {
        uint64_t block = aligned_block_size(address, end);

        if (!get_variable_type(m, address, block - 1, &answer))
            return false;
        address += block;
    }
    *type = (enum memory_type)answer;
    return true;
}
