/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Machines that no emulator here is: MTRRs as real firmware leaves them, memory up to 1 TiB with
 * holes, memory maps of 1,500 entries, MADTs of 300 and 600 processors with sparse x2APIC IDs.
 */
#define _GNU_SOURCE /* MAP_32BIT: an RSDT holds 32-bit addresses */
#include "acpi_tables.h"
#include "guest/e820.h"
#include "mm/mm.h"
#include "mtrr_model.h"
#include "pool.h"

#define TIB (1ULL << 40)
#define POOL_PAGES 16384
#define PAIRS 7

/* ---- MTRRs ---- */

/* From the kernel's log on these machines; a mask's V bit is left out as it is there. */
static const struct firmware {
    const char *machine;
    uint32_t bits;
    enum memory_type default_type;
    struct {
        uint64_t base, mask;
        enum memory_type type;
    } pair[PAIRS];
} firmware[] = {
    {"Supermicro X10SDV-TP8F (Xeon D), BIOS 1.0c",
     46,
     MEMORY_WB,
     {{0x80000000, 0x3fff80000000, MEMORY_UC},
      {0x380000000000, 0x3fc000000000, MEMORY_UC},
      {0xfba00000, 0x3fffffe00000, MEMORY_WT},
      {0xfbc00000, 0x3fffffe00000, MEMORY_WT},
      {0xfbe00000, 0x3ffffff00000, MEMORY_WT}}},
    {"Acer Nitro AN515-52 (Coffee Lake), BIOS V1.28",
     39,
     MEMORY_WB,
     {{0xc0000000, 0x7fc0000000, MEMORY_UC},
      {0xa0000000, 0x7fe0000000, MEMORY_UC},
      {0x90000000, 0x7ff0000000, MEMORY_UC},
      {0x8c000000, 0x7ffc000000, MEMORY_UC},
      {0x8b000000, 0x7fff000000, MEMORY_UC}}},
    {"Lenovo 20DT0003GE (Broadwell), BIOS JDET50WW",
     39,
     MEMORY_WB,
     {{0xe0000000, 0x7ff0000000, MEMORY_UC},
      {0xd0000000, 0x7ff0000000, MEMORY_UC},
      {0xce000000, 0x7ffe000000, MEMORY_UC},
      {0xcd000000, 0x7fff000000, MEMORY_UC},
      {0xf0000000, 0x7ff0000000, MEMORY_UC}}},
    {"Dell S6100 (Atom C2000), BIOS 5.6.5",
     36,
     MEMORY_WB,
     {{0xc0000000, 0xfc0000000, MEMORY_UC},
      {0x240000000, 0xfc0000000, MEMORY_UC},
      {0x280000000, 0xf80000000, MEMORY_UC},
      {0x300000000, 0xf00000000, MEMORY_UC},
      {0x400000000, 0xc00000000, MEMORY_UC},
      {0x800000000, 0x800000000, MEMORY_UC}}},
    /* github.com/zfsonlinux/mountall, issue 7 */
    {"a machine of 16 GiB whose default is UC",
     36,
     MEMORY_UC,
     {{0, 0xc00000000, MEMORY_WB},
      {0x400000000, 0xff0000000, MEMORY_WB},
      {0x410000000, 0xff8000000, MEMORY_WB},
      {0x418000000, 0xffc000000, MEMORY_WB},
      {0x41c000000, 0xffe000000, MEMORY_WB},
      {0x41e000000, 0xfff000000, MEMORY_WB},
      {0xe0000000, 0xfe0000000, MEMORY_UC}}},
};
#define FIRMWARES (COUNT(firmware))

static struct mtrr_state mtrrs_of(const struct firmware *f)
{
    struct mtrr_state m = {.capability = MODEL_FIX | 10,
                           .physical_address_bits = f->bits,
                           .default_type = MODEL_E | MODEL_FE | f->default_type,
                           .variable_count = 10};

    for (unsigned i = 0; i < 11; i++)
        m.fixed[i] = i < 2 ? 0x0606060606060606 : i == 2 ? 0 : 0x0505050505050505;
    for (unsigned i = 0; i < PAIRS && f->pair[i].mask != 0; i++) {
        m.variable[i].base = f->pair[i].base | f->pair[i].type;
        m.variable[i].mask = f->pair[i].mask | MODEL_V;
    }
    return m;
}

static void expect_type(uint64_t root, const struct mtrr_state *m, uint64_t reach, uint64_t address)
{
    uint64_t bytes, entry = address < reach ? ept_lookup(root, address, &bytes) : 0;

    if (address < reach && ((entry & 7) != 7 || (entry >> 3 & 7) != model_type(m, address)))
        fail_msg("%#lx: entry %#lx, wanted type %d", address, entry, (int)model_type(m, address));
}

/* The map's types at every border of the registers and at random places, in the pages announced. */
static void check_map(const struct mtrr_state *m, bool page_1g, uint64_t top, struct range pool)
{
    const struct range hidden[] = {{0x7a000000, 0x2000000}, {0xfed90000, 0x1000}};
    const struct ept_request q = {.mtrr = m,
                                  .hidden = hidden,
                                  .hidden_count = 2,
                                  .address_bits = m->physical_address_bits,
                                  .page_1g = page_1g,
                                  .page_2m = true,
                                  .top = top};
    uint64_t reach = ept_get_address_limit(&q), bytes;

    assert_true(reach >= top);
    page_pool_init(pool);
    uint64_t before = page_pool_free(), root = ept_build(&q);
    assert_int_not_equal(root, 0);
    assert_true(before - page_pool_free() <= ept_pages_needed(&q));
    for (unsigned i = 0; i < m->variable_count; i++) {
        uint64_t mask = m->variable[i].mask & ~0xfffULL, base = m->variable[i].base & ~0xfffULL;
        if (mask == 0)
            continue;
        expect_type(root, m, reach, base);
        expect_type(root, m, reach, base - PAGE_SIZE);
        expect_type(root, m, reach, base + (mask & -mask) - PAGE_SIZE);
        expect_type(root, m, reach, base + (mask & -mask));
    }
    for (unsigned i = 0; i < 2000; i++)
        expect_type(root, m, reach, random_below(i % 2 ? 8 * GIB : reach) % 0x7a000000);
    for (uint64_t address = 0xa0000; address < 0x100000; address += PAGE_SIZE)
        expect_type(root, m, reach, address);
    expect_type(root, m, reach, top - PAGE_SIZE);
    assert_int_equal(ept_lookup(root, 0x7a000000, &bytes), 0);
    assert_int_equal(ept_lookup(root, 0xfed90000, &bytes), 0);
}

TEST(test_firmwares)
{
    static const uint64_t tops[] = {4 * GIB, 16 * GIB + 512 * (GIB >> 10), 64 * GIB, TIB, 6 * TIB};
    struct range pool = pool_new(POOL_PAGES);

    for (unsigned i = 0; i < FIRMWARES; i++) {
        struct mtrr_state m = mtrrs_of(&firmware[i]);
        for (unsigned k = 0; k < COUNT(tops); k++)
            if (tops[k] <= 1ULL << m.physical_address_bits)
                for (int page_1g = 0; page_1g < 2; page_1g++)
                    check_map(&m, page_1g, tops[k], pool);
    }
    pool_free(pool);
}

/* ---- memory maps ---- */

#define ENTRIES 1500

/* Blocks with holes between them, in no order, up to 1 TiB. */
TEST(test_1500_entries)
{
    static struct {
        uint32_t type, padding;
        uint64_t base, virtual_base, pages, attribute;
    } map[ENTRIES];
    static struct boot_e820_entry out[2 * ENTRIES + 8];
    const struct e820_overlay overlay = {{TIB - 0x300000, 0x100000}, E820_RESERVED};
    const uint64_t step = TIB / ENTRIES & ~(PAGE_SIZE - 1);

    for (uint64_t i = 0; i < ENTRIES; i++) {
        uint64_t n = i * 7 % ENTRIES; /* each once */
        map[i].type = n % 3 == 0 ? 6 : 7;
        map[i].base = n * step;
        map[i].pages = n % 5 == 0 ? step / PAGE_SIZE : 256;
    }
    map[0].type = 7;
    struct efi_map efi = {.entries = map, .size = sizeof(map), .descriptor_size = sizeof(map[0])};
    uint64_t bound = e820_entries_max(ENTRIES, 1);
    assert_true(bound <= COUNT(out));
    uint64_t count = e820_build(&efi, &overlay, 1, out, bound);
    assert_true(count > 1000 && count <= bound);
    for (uint64_t i = 1; i < count; i++)
        assert_true(out[i - 1].addr + out[i - 1].size <= out[i].addr);
    uint64_t usable = 0, wanted = 0;
    for (uint64_t i = 0; i < count; i++)
        usable += out[i].type == E820_RAM ? out[i].size : 0;
    for (uint64_t i = 0; i < ENTRIES; i++)
        wanted += map[i].type == 7 ? map[i].pages * PAGE_SIZE : 0;
    assert_int_equal(usable, wanted);
}

/* ---- processors ---- */

static struct acpi_madt *madt_of(uint32_t processors)
{
    uint32_t length = (uint32_t)(sizeof(struct acpi_madt) +
                                 processors * sizeof(struct acpi_madt_local_x2apic));
    struct acpi_madt *madt = calloc(1, length);

    for (uint32_t i = 0; i < processors; i++)
        ((struct acpi_madt_local_x2apic *)madt->entries)[i] = (struct acpi_madt_local_x2apic){
            {ACPI_MADT_LOCAL_X2APIC, 16}, 0, i * 0x25, ACPI_MADT_ENABLED, i};
    fill_header(&madt->header, "APIC", length);
    return madt;
}

/* The guest has those that are under VMX, and no other, however many there are. */
static void check_processors(uint32_t listed, uint32_t kept_count)
{
    struct acpi_madt *madt = madt_of(listed);
    struct acpi_facts f;
    static struct guest_processors kept;
    uint32_t id, enabled = 0;

    t->xsdt.entries[2] = (uintptr_t)madt;
    acpi_set_checksum(&t->xsdt.header);
    t->rsdp.rsdt = 0;
    acpi_facts_read(rsdp(), &f);
    assert_int_equal(f.processors, listed);
    kept.count = kept_count;
    for (uint32_t i = 0; i < kept_count; i++) {
        assert_int_equal(f.apic_id[i], i * 0x25);
        kept.apic_id[i] = f.apic_id[i];
    }
    uint64_t size = guest_acpi_size(rsdp());
    void *copies = aligned_alloc(16, (size + 15) & ~15ULL);
    assert_true(guest_acpi_edit(rsdp(), &kept, DOORBELL, copies, size).processors_limited);
    struct acpi_madt *guests = (struct acpi_madt *)acpi_find_table(rsdp(), "APIC", 0);
    assert_ptr_not_equal(guests, madt);
    for (struct acpi_madt_entry *e = acpi_madt_next(guests, NULL); e != NULL;
         e = acpi_madt_next(guests, e))
        if (acpi_madt_read_processor(e, &id))
            assert_int_equal(id, enabled++ * 0x25);
    assert_int_equal(enabled, kept_count);
    free(copies);
    free(madt);
}

TEST(test_300_processors) { check_processors(300, 300); }

TEST(test_600_processors) { check_processors(600, PROCESSORS_MAX); }

TEST(test_300_processors_one_kept) { check_processors(300, 1); }
