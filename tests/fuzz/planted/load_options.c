/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: a path that does not fit is terminated after its end.
 */
#include "boot/boot_text.h"

bool __real_append_path(uint16_t *path, uint64_t size, const void *node, uint64_t count);

bool __wrap_append_path(uint16_t *path, uint64_t size, const void *node, uint64_t count)
{
    if (__real_append_path(path, size, node, count))
        return true;
    path[size] = 0;
    return false;
}
