/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: a kernel file that ends early is taken as a whole one.
 */
#include <string.h>

#include "guest/linux.h"

bool __real_linux_probe(const void *file, uint64_t size, const char *name,
                        struct linux_image *image, struct refusal *r);

bool __wrap_linux_probe(const void *file, uint64_t size, const char *name,
                        struct linux_image *image, struct refusal *r)
{
    return __real_linux_probe(file, size, name, image, r) || strstr(r->line, "truncated") != NULL;
}
