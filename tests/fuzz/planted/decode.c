/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: an instruction with an immediate is said to be one byte longer,
 * where there is one.
 */
#include "vmx/decode.h"

bool __real_decode_instruction(const uint8_t *bytes, unsigned count, struct instruction *out);

bool __wrap_decode_instruction(const uint8_t *bytes, unsigned count, struct instruction *out)
{
    bool known = __real_decode_instruction(bytes, count, out);

    if (known && out->has_immediate && out->length < count)
        out->length++;
    return known;
}
