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
    struct setup_layout l = plan_setup_layout(&bi->options, bi->acpi.rsdp, 0);
    struct boot_info with_room = *bi;
    void *room = calloc(1, l.acpi + l.acpi_size);

    if (room == NULL)
        return refuse(r, REFUSE_NO_MEMORY, "pmuvisor-check: out of memory");
    with_room.guest_setup = (struct range){(uintptr_t)room, l.acpi + l.acpi_size};
    bool done = edit_acpi(&with_room, &l, processors, r);
    free(room);
    return done;
}
