/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Edits the guest's ACPI tables: the MADT enables only the processors under VMX, the FADT's reset
 * register points to the hypervisor's doorbell, and S5 is the only sleep state. Removes whole
 * tables from the lists if the caller asks for it. Everything else stays as firmware made it. (ACPI
 * specification, "Multiple APIC Description Table" and "Reset Register".)
 */
#include "guest/acpi_edit.h"

#include <string.h>

#include "bits.h"
#include "lib/acpi.h"

#define COPY_ALIGNMENT 16
#define RESET_WIDTH_BITS 8

static struct acpi_header *find_madt(uint64_t rsdp)
{
    return acpi_find_table(rsdp, "APIC", sizeof(struct acpi_madt));
}

/* Finds a FADT whose reset register can be watched. If firmware has no reset register, the guest
 * sees none either, and resets in another way, as it would natively. */
static struct acpi_header *find_fadt(uint64_t rsdp)
{
    struct acpi_fadt *fadt = (struct acpi_fadt *)acpi_find_table(rsdp, "FACP",
                                                                 sizeof(struct acpi_fadt));

    return fadt != NULL && (fadt->flags & ACPI_FADT_RESET_REG_SUP) ? &fadt->header : NULL;
}

uint64_t guest_acpi_size(uint64_t rsdp)
{
    const struct acpi_header *madt = find_madt(rsdp), *fadt = find_fadt(rsdp);

    return (madt == NULL ? 0 : align_up(madt->length, COPY_ALIGNMENT)) +
           (fadt == NULL ? 0 : align_up(fadt->length, COPY_ALIGNMENT));
}

static bool is_kept_processor(uint32_t apic_id, const struct guest_processors *kept)
{
    for (uint32_t i = 0; i < kept->count; i++)
        if (kept->apic_id[i] == apic_id)
            return true;
    return false;
}

/* Returns true if at least one processor stays enabled. If a damaged entry ends the walk, the table
 * is cut there, because an operating system that reads on would find processors that are still
 * enabled. */
static bool disable_other_processors(struct acpi_madt *madt, const struct guest_processors *kept)
{
    uint32_t apic_id, length = sizeof(*madt);
    bool found = false;

    for (struct acpi_madt_entry *e = acpi_madt_next(madt, NULL); e != NULL;
         e = acpi_madt_next(madt, e)) {
        length += e->length;
        if (acpi_madt_read_processor(e, &apic_id) && is_kept_processor(apic_id, kept))
            found = true;
        else
            acpi_madt_disable_processor(e);
    }
    madt->header.length = length;
    return found;
}

static void redirect_reset_register(struct acpi_fadt *fadt, uint64_t doorbell)
{
    fadt->reset_register = (struct acpi_generic_address){
        .space_id = ACPI_SPACE_MEMORY,
        .bit_width = RESET_WIDTH_BITS,
        .access_size = ACPI_ACCESS_BYTE,
        .address = doorbell,
    };
}

/* Points every entry for a table with this signature to `new`, or removes the entry if `new` is 0.
 * Tables can lie in write-protected memory. So this function checks its writes, and returns false
 * if they had no effect. Also returns false if the entries are too short for `new`. */
static bool replace_table_pointers(const struct acpi_list *list, const char *signature,
                                   uint64_t new)
{
    uint32_t kept = 0;
    bool done = true;

    if (list->entry_size < sizeof(uint64_t) && new > UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t address = acpi_get_table_address(list, i);
        if (acpi_validate_table(address, signature, 0) != NULL)
            address = new;
        if (address == 0)
            continue;
        acpi_set_table_address(list, kept, address);
        done &= acpi_get_table_address(list, kept++) == address;
    }
    list->table->length = (uint32_t)sizeof(*list->table) + kept * list->entry_size;
    acpi_set_checksum(list->table);
    return done && acpi_checksum(list->table, list->table->length) == 0 &&
           list->table->length == (uint32_t)sizeof(*list->table) + kept * list->entry_size;
}

static bool replace_in_rsdt_and_xsdt(uint64_t rsdp, const char *signature, uint64_t new)
{
    const struct acpi_list lists[] = {acpi_read_xsdt(rsdp), acpi_read_rsdt(rsdp)};
    bool done = true;

    for (unsigned i = 0; i < LENGTH_OF(lists); i++)
        if (lists[i].table != NULL)
            done &= replace_table_pointers(&lists[i], signature, new);
    return done;
}

bool guest_acpi_hide(uint64_t rsdp, const char *signature)
{
    return replace_in_rsdt_and_xsdt(rsdp, signature, 0);
}

static bool replace_table(uint64_t rsdp, struct acpi_header *new)
{
    acpi_set_checksum(new);
    return replace_in_rsdt_and_xsdt(rsdp, new->signature, (uintptr_t)new);
}

struct guest_acpi_result guest_acpi_edit(uint64_t rsdp, const struct guest_processors *kept,
                                         uint64_t doorbell, void *area, uint64_t area_size)
{
    struct guest_acpi_result result = {0};
    struct acpi_header *madt = find_madt(rsdp), *fadt = find_fadt(rsdp);
    uint8_t *next = area;

    acpi_read_sleep_states(rsdp, NULL);
    if (guest_acpi_size(rsdp) > area_size)
        return result;
    if (madt != NULL) {
        memcpy(next, madt, madt->length);
        /* If the copy enables no processor, keep firmware's MADT. */
        result.processors_limited = disable_other_processors((struct acpi_madt *)next, kept) &&
                                    replace_table(rsdp, (struct acpi_header *)next);
        next += align_up(madt->length, COPY_ALIGNMENT);
    }
    if (fadt != NULL) {
        memcpy(next, fadt, fadt->length);
        redirect_reset_register((struct acpi_fadt *)next, doorbell);
        result.reset_watched = replace_table(rsdp, (struct acpi_header *)next);
    }
    return result;
}
