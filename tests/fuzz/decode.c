/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: the decoder of guest instructions, and what they do. Input: mode, operands, bytes.
 */
#include "vmx/decode.h"

#include "cpu.h"
#include "fuzz.h"

#define STATUS_FLAGS 0x8d5u /* CF, PF, AF, ZF, SF, OF (SDM Vol. 1, "Status Flags") */

static enum decode_result decode_exactly(const uint8_t *bytes, unsigned count, enum code_size size,
                                         struct instruction *out)
{
    uint8_t *copy = exactly(bytes, count);
    enum decode_result result = decode(copy, count, size, out);

    free(copy);
    return result;
}

static void check_effect(const struct instruction *i, uint32_t memory, uint32_t reg,
                         uint64_t before)
{
    uint64_t flags = before, flags_without = before;
    struct effect effect = execute(i, memory, reg, &flags);

    CHECK(((flags ^ before) & ~(uint64_t)STATUS_FLAGS) == 0, "0x%lx from 0x%lx",
          (unsigned long)flags, (unsigned long)before);
    /* An operand that is not read does not count. */
    if (!reads_memory(i)) {
        struct effect other = execute(i, ~memory, reg, &flags_without);
        CHECK(other.memory == effect.memory && flags_without == flags, "it reads memory");
    }
    if (i->operation == OPERATION_CMP || i->operation == OPERATION_TEST)
        CHECK(!effect.writes_memory && !effect.writes_register, "operation %d writes",
              (int)i->operation);
    else
        CHECK(effect.writes_memory == (i->memory_first || i->operation == OPERATION_XCHG) &&
                  effect.writes_register == (!i->memory_first || i->operation == OPERATION_XCHG),
              "operation %d", (int)i->operation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    enum code_size mode = (enum code_size)(take_u8(&in) % 3);
    uint32_t memory = take_u32(&in), reg = take_u32(&in);
    uint64_t flags = take_u8(&in);
    unsigned count = in.left < INSTRUCTION_BYTES_MAX ? (unsigned)in.left : INSTRUCTION_BYTES_MAX;
    struct instruction i, cut;
    enum decode_result result = decode_exactly(in.data, count, mode, &i);

    CHECK(result == DECODE_DONE || result == DECODE_SHORT || result == DECODE_UNKNOWN, "%d",
          (int)result);
    if (result != DECODE_DONE)
        return 0;
    CHECK(i.length >= 2 && i.length <= count, "%u of %u bytes", i.length, count);
    CHECK(i.operation <= OPERATION_XCHG && i.operation != 2 && i.operation != 3, "%d",
          (int)i.operation);
    CHECK(i.reg < GPR_COUNT && (mode == CODE_64 || i.reg < 8), "register %u", i.reg);
    CHECK(!i.has_immediate || i.memory_first, "an immediate as destination");
    for (unsigned less = 0; less < i.length; less++)
        CHECK(decode_exactly(in.data, less, mode, &cut) == DECODE_SHORT, "cut to %u of %u", less,
              i.length);
    CHECK(decode_exactly(in.data, i.length, mode, &cut) == DECODE_DONE && cut.length == i.length &&
              cut.operation == i.operation && cut.immediate == i.immediate && cut.reg == i.reg,
          "what follows it counts");
    check_effect(&i, memory, reg, flags | 2);
    return 0;
}
