/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: an instruction with an immediate is said to be one byte longer,
 * where there is one.
 */
#include "vmx/decode.h"

enum decode_result __real_decode(const uint8_t *bytes, unsigned count, enum code_size size,
                                 struct instruction *out);
enum decode_result __wrap_decode(const uint8_t *bytes, unsigned count, enum code_size size,
                                 struct instruction *out);

enum decode_result __wrap_decode(const uint8_t *bytes, unsigned count, enum code_size size,
                                 struct instruction *out)
{
    enum decode_result result = __real_decode(bytes, count, size, out);

    if (result == DECODE_DONE && out->has_immediate && out->length < count)
        out->length++;
    return result;
}
