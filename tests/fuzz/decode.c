/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: the decoder of guest instructions. Input: their bytes.
 */
#include "vmx/decode.h"

#include "fuzz.h"
#include "vmx/cpu.h"

static bool decode_exactly(const uint8_t *bytes, unsigned count, struct instruction *out)
{
    uint8_t *copy = exactly(bytes, count);
    bool known = decode_instruction(copy, count, out);

    free(copy);
    return known;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned count = size < INSTRUCTION_BYTES_MAX ? (unsigned)size : INSTRUCTION_BYTES_MAX;
    struct instruction i, cut;

    if (!decode_exactly(data, count, &i))
        return 0;
    CHECK(i.length >= 2 && i.length <= count, "%u of %u bytes", i.length, count);
    CHECK(i.loads || i.stores, "it does nothing");
    CHECK(i.reg < GPR_COUNT, "register %u", i.reg);
    CHECK(!i.has_immediate || (i.stores && !i.loads), "an immediate as destination");
    for (unsigned less = 0; less < i.length; less++)
        CHECK(!decode_exactly(data, less, &cut) && cut.length > less, "cut to %u of %u", less,
              i.length);
    CHECK(decode_exactly(data, i.length, &cut) && cut.length == i.length && cut.loads == i.loads &&
              cut.stores == i.stores && cut.immediate == i.immediate && cut.reg == i.reg,
          "what follows it counts");
    return 0;
}
