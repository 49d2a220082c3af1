/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a decoded instruction does to its operands and to the status flags. Pure.
 * SDM Vol. 1, "Status Flags"; Vol. 2, the instructions' "Flags Affected".
 */
#include "decode.h"
#include "x86.h"

#define STATUS_FLAGS (RFLAGS_CF | RFLAGS_PF | RFLAGS_AF | RFLAGS_ZF | RFLAGS_SF | RFLAGS_OF)
#define SIGN BIT(31)

/* AF, which the logical operations leave undefined, is 0 after them. */
static uint64_t flags_of(enum operation operation, uint32_t first, uint32_t second,
                         uint32_t result)
{
    uint64_t flags = result == 0 ? RFLAGS_ZF : 0;

    if (result & SIGN)
        flags |= RFLAGS_SF;
    if (!__builtin_parity(result & 0xff))
        flags |= RFLAGS_PF;
    if (operation != OPERATION_ADD && operation != OPERATION_SUB && operation != OPERATION_CMP)
        return flags;

    bool add = operation == OPERATION_ADD;
    if (add ? result < first : first < second)
        flags |= RFLAGS_CF;
    if ((first ^ second ^ result) & RFLAGS_AF)
        flags |= RFLAGS_AF;
    /* The result's sign is wrong where both addends had the other one. */
    if ((first ^ result) & ((add ? second : ~second) ^ result) & SIGN)
        flags |= RFLAGS_OF;
    return flags;
}

static uint32_t combine(enum operation operation, uint32_t first, uint32_t second)
{
    switch (operation) {
    case OPERATION_ADD:
        return first + second;
    case OPERATION_OR:
        return first | second;
    case OPERATION_AND:
    case OPERATION_TEST:
        return first & second;
    case OPERATION_SUB:
    case OPERATION_CMP:
        return first - second;
    case OPERATION_XOR:
        return first ^ second;
    default: /* MOV and XCHG */
        return second;
    }
}

struct effect execute(const struct instruction *i, uint32_t memory, uint32_t reg, uint64_t *rflags)
{
    uint32_t other = i->has_immediate ? i->immediate : reg;
    uint32_t first = i->memory_first ? memory : other, second = i->memory_first ? other : memory;
    uint32_t result = combine(i->operation, first, second);
    bool moves = i->operation == OPERATION_MOV || i->operation == OPERATION_XCHG;
    bool writes = i->operation != OPERATION_CMP && i->operation != OPERATION_TEST;

    if (!moves)
        *rflags = (*rflags & ~STATUS_FLAGS) | flags_of(i->operation, first, second, result);
    if (i->operation == OPERATION_XCHG)
        return (struct effect){true, true, reg, memory};
    return (struct effect){
        .writes_memory = writes && i->memory_first,
        .writes_register = writes && !i->memory_first,
        .memory = result,
        .reg = result,
    };
}
