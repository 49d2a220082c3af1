/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: firmware's ACPI tables, read and edited for the guest. Input: shape, APIC id, then
 * tables: kind and length, bytes after the header. Firmware's pointers lead to tables, as they do
 * on a machine; lengths, checksums, signatures and contents are the input's. What is in no table
 * must not be touched.
 */
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#include "boot/acpi.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "guest/acpi_edit.h"

#define ARENA 0x10000000UL /* 32 bits: an RSDT's entries have no more */
#define ARENA_SIZE (4UL << 20)
#define TABLES_MAX 8
#define TABLE_SIZE_MAX 4096u /* a longer one that would still be read is made so long */
#define GAP 64
#define DOORBELL 0x12345000ULL
#define NO_CHECKSUM 0x80 /* kinds: the table's checksum stays as it is */
#define NO_LENGTH 0x40   /* its length is the input's */
#define DSDT 0x20        /* one with AML is the DSDT */

static uint8_t *next_free;

/* Everything between two tables is out of bounds. */
static void *place(size_t size)
{
    uint8_t *at = next_free;

    CHECK(at + size + GAP < (uint8_t *)ARENA + ARENA_SIZE, "%zu bytes", size);
    ASAN_UNPOISON_MEMORY_REGION(at, size);
    memset(at, 0, size);
    next_free += (size + GAP + 7) / 8 * 8;
    return at;
}

static void start_arena(void)
{
    static bool mapped;

    if (!mapped) {
        void *at = mmap((void *)ARENA, ARENA_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        CHECK(at == (void *)ARENA, "no memory at 0x%lx", ARENA);
        mapped = true;
    }
    ASAN_POISON_MEMORY_REGION((void *)ARENA, ARENA_SIZE);
    next_free = (uint8_t *)ARENA + GAP;
}

/* One table out of the input. */
static struct acpi_header *new_table(struct input *in)
{
    static const char *const signatures[] = {"APIC", "FACP", "DMAR", "SSDT"};
    const uint32_t header = sizeof(struct acpi_header);
    uint8_t kind = take_u8(in);
    uint32_t body = take_u16(in) % (TABLE_SIZE_MAX - header);
    uint32_t claimed = kind & NO_LENGTH ? take_u32(in) : body + header;

    if (claimed <= ACPI_TABLE_MAX)
        claimed %= TABLE_SIZE_MAX + 1;
    /* What a table claims and is not refused for is there. */
    uint32_t there = body + header;
    if (claimed <= ACPI_TABLE_MAX && claimed > there)
        there = claimed;
    struct acpi_header *table = place(there);
    take(in, table + 1, body < in->left ? body : in->left);
    const char *signature = kind % 4 == 3 && kind & DSDT ? "DSDT" : signatures[kind % 4];
    memcpy(table->signature, signature, sizeof(table->signature));
    table->length = claimed;
    if (!(kind & NO_CHECKSUM) && claimed >= sizeof(*table) && claimed <= there)
        acpi_set_checksum(table);
    return table;
}

static bool is_table(const struct acpi_header *table, const char *signature)
{
    return memcmp(table->signature, signature, sizeof(table->signature)) == 0;
}

/* A FADT that is taken for one leads to a DSDT or to none. */
static void lead_to_dsdt(struct acpi_header *const *tables, uint32_t count)
{
    struct acpi_header *dsdt = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (is_table(tables[i], "DSDT"))
            dsdt = tables[i];
    for (uint32_t i = 0; i < count; i++) {
        struct acpi_fadt_wide *fadt = (struct acpi_fadt_wide *)tables[i];
        if (acpi_validate_table((uintptr_t)fadt, "FACP",
                                offsetof(struct acpi_fadt, reset_register)) == NULL)
            continue;
        fadt->narrow.dsdt = (uint32_t)(uintptr_t)dsdt;
        if (fadt->narrow.header.length >= sizeof(*fadt))
            fadt->x_dsdt = fadt->x_dsdt % 2 == 0 ? 0 : (uintptr_t)dsdt;
        acpi_set_checksum(&fadt->narrow.header);
    }
}

static struct acpi_header *new_list(const char *signature, uint32_t entry_size, uint8_t wrong,
                                    struct acpi_header *const *tables, uint32_t count)
{
    uint32_t length = (uint32_t)sizeof(struct acpi_header) + count * entry_size;
    struct acpi_header *list = place(length);

    memcpy(list->signature, signature, sizeof(list->signature));
    list->length = length;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address = (uintptr_t)tables[i];
        memcpy((uint8_t *)(list + 1) + (size_t)i * entry_size, &address, entry_size);
    }
    acpi_set_checksum(list);
    list->checksum = (uint8_t)(list->checksum + wrong);
    return list;
}

static uint64_t new_rsdp(uint8_t shape, uint64_t xsdt, uint64_t rsdt)
{
    struct acpi_rsdp *rsdp = place(sizeof(*rsdp));

    memcpy(rsdp->signature, "RSD PTR ", sizeof(rsdp->signature));
    rsdp->revision = shape & 1 ? 0 : 2;
    rsdp->length = sizeof(*rsdp);
    rsdp->xsdt = shape & 2 ? 0 : xsdt;
    rsdp->rsdt = shape & 4 ? 0 : (uint32_t)rsdt;
    rsdp->checksum = (uint8_t)(0 - acpi_checksum(rsdp, ACPI_RSDP_V1_LENGTH));
    rsdp->extended_checksum = (uint8_t)(0 - acpi_checksum(rsdp, sizeof(*rsdp)));
    return (uintptr_t)rsdp;
}

static bool enabled_processor(const struct acpi_madt_entry *e, uint32_t *id)
{
    const uint32_t usable = ACPI_MADT_ENABLED | ACPI_MADT_ONLINE_CAPABLE;

    if (e->type == ACPI_MADT_LOCAL_APIC && e->length >= sizeof(struct acpi_madt_local_apic)) {
        *id = ((const struct acpi_madt_local_apic *)e)->apic_id;
        return ((const struct acpi_madt_local_apic *)e)->flags & usable;
    }
    if (e->type == ACPI_MADT_LOCAL_SAPIC && e->length >= sizeof(struct acpi_madt_local_sapic)) {
        const struct acpi_madt_local_sapic *sapic = (const struct acpi_madt_local_sapic *)e;
        *id = (uint32_t)sapic->id << 8 | sapic->eid;
        return sapic->flags & usable;
    }
    if (e->type == ACPI_MADT_LOCAL_X2APIC && e->length >= sizeof(struct acpi_madt_local_x2apic)) {
        *id = ((const struct acpi_madt_local_x2apic *)e)->x2apic_id;
        return ((const struct acpi_madt_local_x2apic *)e)->flags & usable;
    }
    return false;
}

static bool inside(const void *p, const uint8_t *area, uint64_t size)
{
    return (const uint8_t *)p >= area && (const uint8_t *)p < area + size;
}

static void check_edited(uint64_t rsdp, uint32_t kept, struct guest_acpi_result done,
                         const uint8_t *area, uint64_t size)
{
    struct acpi_header *madt = acpi_find_table(rsdp, "APIC", sizeof(struct acpi_madt));
    struct acpi_header *fadt = acpi_find_table(rsdp, "FACP", sizeof(struct acpi_fadt));
    uint32_t id;

    CHECK(!done.processors_limited || madt == NULL || acpi_checksum(madt, madt->length) == 0,
          "MADT's sum");
    CHECK(!done.reset_watched || fadt == NULL || acpi_checksum(fadt, fadt->length) == 0,
          "FADT's sum");
    if (done.processors_limited) {
        unsigned found = 0;
        CHECK(madt != NULL && inside(madt, area, size), "the MADT is not the copy");
        for (struct acpi_madt_entry *e = acpi_madt_next((struct acpi_madt *)madt, NULL); e != NULL;
             e = acpi_madt_next((struct acpi_madt *)madt, e)) {
            if (enabled_processor(e, &id)) {
                CHECK(id == kept, "processor 0x%x is enabled", id);
                found++;
            }
        }
        CHECK(found > 0, "no processor is enabled");
    }
    if (done.reset_watched) {
        const struct acpi_fadt *copy = (const struct acpi_fadt *)fadt;
        CHECK(copy != NULL && inside(copy, area, size), "the FADT is not the copy");
        CHECK(copy->reset_register.space_id == ACPI_SPACE_MEMORY &&
                  copy->reset_register.address == DOORBELL,
              "reset register 0x%lx", (unsigned long)copy->reset_register.address);
    }
}

/* What is hidden is gone, what was there besides still is. */
static void check_hide(uint64_t rsdp)
{
    const struct acpi_header *madt = acpi_find_table(rsdp, "APIC", 0),
                             *fadt = acpi_find_table(rsdp, "FACP", 0);

    if (!guest_acpi_hide(rsdp, "DMAR"))
        return;
    CHECK(acpi_find_table(rsdp, "DMAR", 0) == NULL, "the DMAR is there");
    CHECK(acpi_find_table(rsdp, "APIC", 0) == madt && acpi_find_table(rsdp, "FACP", 0) == fadt,
          "another table is gone");
    for (int rsdt = 0; rsdt < 2; rsdt++) {
        struct acpi_list list = rsdt ? acpi_read_rsdt(rsdp) : acpi_read_xsdt(rsdp);
        for (uint32_t i = 0; i < list.count; i++)
            CHECK(acpi_validate_table(acpi_get_table_address(&list, i), "DMAR", 0) == NULL,
                  "entry %u", i);
    }
}

/* Only names of sleep states change, and the checksum with them. */
static void check_aml(const struct acpi_header *now, const struct acpi_header *was, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        uint8_t a = ((const uint8_t *)was)[i], b = ((const uint8_t *)now)[i];
        CHECK(a == b || (a == '_' && b == 'X' && i > sizeof(*now)) ||
                  i == offsetof(struct acpi_header, checksum),
              "byte %u: 0x%x became 0x%x", i, a, b);
    }
}

static void check_facts(uint64_t rsdp)
{
    struct acpi_facts *facts = malloc(sizeof(*facts));

    CHECK(facts != NULL, "facts");
    acpi_facts_read(rsdp, facts);
    CHECK(facts->rsdp == rsdp, "0x%lx", (unsigned long)facts->rsdp);
    /* A processor that is listed twice, as firmware with both kinds of entries does, is one. */
    for (uint32_t i = 0; i < facts->processors && i < PROCESSORS_MAX; i++)
        for (uint32_t k = 0; k < i; k++)
            CHECK(facts->apic_id[i] != facts->apic_id[k], "processor 0x%x twice",
                  facts->apic_id[i]);
    free(facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct acpi_header *tables[TABLES_MAX] = {NULL}, *before[TABLES_MAX];
    uint32_t lengths[TABLES_MAX] = {0}, count = 0;

    start_arena();
    uint8_t shape = take_u8(&in);
    uint32_t kept = take_u32(&in);
    for (; count < TABLES_MAX && in.left > 0; count++) {
        uint8_t *start = next_free;
        tables[count] = new_table(&in);
        lengths[count] = sizeof(struct acpi_header);
        if (tables[count]->length < (uint32_t)(next_free - start))
            lengths[count] = tables[count]->length;
    }
    lead_to_dsdt(tables, count);
    for (uint32_t i = 0; i < count; i++)
        before[i] = exactly(tables[i], lengths[i]);
    struct acpi_header *xsdt = new_list("XSDT", 8, shape >> 3 & 1, tables, count);
    struct acpi_header *rsdt = new_list("RSDT", 4, shape >> 4 & 1, tables, count);
    uint64_t rsdp = new_rsdp(shape, (uintptr_t)xsdt, (uintptr_t)rsdt);

    check_facts(rsdp);
    uint64_t wanted = guest_acpi_size(rsdp), given = shape & 0x20 ? wanted / 2 : wanted;
    uint8_t *area = place(given);
    static struct guest_processors processors = {.count = 1};
    processors.apic_id[0] = kept;
    struct guest_acpi_result done = guest_acpi_edit(rsdp, &processors, DOORBELL, area, given);
    check_edited(rsdp, kept, done, area, given);
    check_hide(rsdp);
    /* Firmware's own tables stay as they were; only the lists change. */
    for (uint32_t i = 0; i < count; i++) {
        if (is_table(tables[i], "SSDT") || is_table(tables[i], "DSDT"))
            check_aml(tables[i], before[i], lengths[i]);
        else
            CHECK(memcmp(tables[i], before[i], lengths[i]) == 0, "table %u changed", i);
        free(before[i]);
    }
    return 0;
}
