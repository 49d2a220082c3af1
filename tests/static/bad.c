/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bugs that the analysers must see, to show that they run. Never linked, never run.
 */
#include <stddef.h>
#include <stdint.h>

uint64_t null_pointer(const uint64_t *p);
uint64_t past_the_end(void);

uint64_t null_pointer(const uint64_t *p)
{
    if (p == NULL)
        return *p;
    return 0;
}

uint64_t past_the_end(void)
{
    uint64_t four[4] = {0};

    return four[4];
}
