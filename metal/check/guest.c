/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What guest/linux.c does with the ACPI tables, which may be a reason to stop; its static functions
 * are used.
 */
#include "guest/linux.c"

#include <stdlib.h>

#include "lib/refusal.h"
#include "metal/check/question.h"

bool check_guest(const struct boot_info *bi, const struct guest_processors *processors,
                 struct refusal *r)
{
    uint64_t size = guest_acpi_size(bi->acpi.rsdp);
    void *room = calloc(1, size);

    if (room == NULL)
        return refuse(r, REFUSE_NO_MEMORY, "pmuvisor-check: out of memory");
    bool done = edit_acpi(bi, (struct range){(uintptr_t)room, size}, processors, r);
    free(room);
    return done;
}
