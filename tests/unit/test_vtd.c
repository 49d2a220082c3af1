/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The VT-d code against a model of units that is as strict as the specification: one command bit at
 * a time, a queue that is set up while it is off, no change of the kind of tables while translation
 * is on, nothing turned on with stale caches. What the tables allow a walker of its own says.
 */
#define SETUP reset
#include "unit.h"

#include "console/log.h"
#include "lib/acpi.h"
#include "pool.h"
#include "random.h"
#include "vtd_model.h"

/* ---- a machine ---- */

static struct {
    struct acpi_rsdp rsdp;
    struct {
        struct acpi_header header;
        uint64_t entry;
    } __attribute__((packed)) xsdt;
    struct {
        struct acpi_header header;
        uint8_t rest[12];
        struct {
            uint16_t type, length;
            uint8_t flags, size;
            uint16_t segment;
            uint64_t base;
        } __attribute__((packed)) units[UNITS];
        struct {
            uint16_t type, length;
            uint32_t reserved;
            uint64_t base, limit;
        } __attribute__((packed)) region;
    } __attribute__((packed)) dmar;
} tables_of_firmware, *const t = &tables_of_firmware;
static struct mtrr_state mtrr;
static struct range hidden[2 + UNITS];
static struct ept_request q;
static struct vtd_plan plan;
static uint64_t ept_root;

static void seal(struct acpi_header *h, const char *signature, uint32_t length)
{
    memcpy(h->signature, signature, 4);
    h->length = length;
    acpi_set_checksum(h);
}

static uint64_t rsdp(void)
{
    memcpy(t->rsdp.signature, "RSD PTR ", 8);
    t->rsdp.revision = 2;
    t->rsdp.length = sizeof(t->rsdp);
    t->rsdp.xsdt = (uintptr_t)&t->xsdt;
    t->rsdp.checksum = t->rsdp.extended_checksum = 0;
    t->rsdp.checksum = (uint8_t)-acpi_checksum(&t->rsdp, 20);
    t->rsdp.extended_checksum = (uint8_t)-acpi_checksum(&t->rsdp, sizeof(t->rsdp));
    t->xsdt.entry = (uintptr_t)&t->dmar;
    seal(&t->xsdt.header, "XSDT", sizeof(t->xsdt));
    seal(&t->dmar.header, "DMAR", sizeof(t->dmar));
    return (uintptr_t)&t->rsdp;
}

/* Units after reset, and the EPT for a machine with 4 GiB. */
static int reset(void **state)
{
    (void)state;
    memset(units, 0, sizeof(units));
    memset(t, 0, sizeof(*t));
    for (unsigned i = 0; i < UNITS; i++) {
        units[i] = (struct unit){.cap = CAP_USUAL, .ecap = ECAP_USUAL};
        t->dmar.units[i].length = sizeof(t->dmar.units[i]);
        t->dmar.units[i].base = UNIT(i);
    }
    t->dmar.region.type = 1;
    t->dmar.region.length = sizeof(t->dmar.region);
    t->dmar.region.base = 0x7b800000;
    t->dmar.region.limit = 0x7fffffff;
    caches_flushed = false;
    if (pool.base == 0)
        pool = pool_new(POOL_PAGES);
    page_pool_init(pool);
    mtrr = (struct mtrr_state){.default_type = 1 << 11 | MEMORY_WB, .physical_address_bits = 46};
    hidden[0] = (struct range){0x40000000, 4 * MIB};
    hidden[1] = (struct range){0x7f345000, 0x21000};
    for (unsigned i = 0; i < UNITS; i++)
        hidden[2 + i] = (struct range){UNIT(i), PAGE_SIZE};
    q = (struct ept_request){.mtrr = &mtrr,
                             .hidden = hidden,
                             .hidden_count = 2 + UNITS,
                             .address_bits = 46,
                             .page_1g = true,
                             .page_2m = true,
                             .top = 4 * GIB};
    ept_root = ept_build(&q);
    assert_int_not_equal(ept_root, 0);
    memset(&plan, 0xa5, sizeof(plan));
    return 0;
}

static bool find(enum x2apic_use x2apic) { return vtd_find_units(rsdp(), x2apic, q.top, &plan); }

static bool is_hidden(uint64_t address)
{
    for (unsigned i = 0; i < q.hidden_count; i++)
        if (address - hidden[i].base < hidden[i].size)
            return true;
    return false;
}

static void assert_contained(void)
{
    for (unsigned n = 0; n < UNITS; n++) {
        const struct unit *u = &units[n];

        assert_int_equal(u->status & (TE | QIE | IRE), TE | QIE);
        assert_int_equal(u->fault_control, 1u << 31);
        assert_int_equal(u->protected & 0x80000001u, 0);
        assert_int_equal(u->root, u->root_register);
        assert_true(!u->contexts_stale && !u->pages_stale);
        for (unsigned i = 0; i < q.hidden_count; i++)
            for (uint64_t a = hidden[i].base; a < hidden[i].base + hidden[i].size; a += PAGE_SIZE)
                assert_false(allowed(u, (uint16_t)random_u64(), a));
        assert_true(allowed(u, 0, hidden[0].base - 1));
        assert_true(allowed(u, 0xffff, hidden[0].base + hidden[0].size));
        assert_true(allowed(u, 0x00f8, t->dmar.region.base)); /* firmware's region stays in reach */
        for (unsigned i = 0; i < 2000; i++) {
            uint64_t a = random_below(q.top);
            if (allowed(u, (uint16_t)random_u64(), a) == is_hidden(a))
                fail_msg("0x%lx", (unsigned long)a);
        }
        for (unsigned requester = 0; requester < 0x10000; requester += 0x101)
            assert_true(allowed(u, (uint16_t)requester, 0x1000));
    }
}

/* Finds, starts and checks; gives the pages that it took. */
static uint64_t contain(void)
{
    assert_true(find(X2APIC_OFF));
    uint64_t before = page_pool_free(), announced = vtd_pages_needed(&plan, &q);

    assert_true(vtd_start(&plan, &q, ept_root));
    uint64_t taken = before - page_pool_free();
    assert_true(taken <= announced);
    assert_contained();
    return taken;
}

/* ---- plans ---- */

TEST(plan_of_usual_units)
{
    assert_true(find(X2APIC_OFF));
    assert_int_equal(plan.dmar.unit_count, UNITS);
    assert_int_equal(plan.dmar.units[1].base, UNIT(1));
    assert_int_equal(plan.dmar.units[1].size, PAGE_SIZE);
    assert_int_equal(vtd_pages_needed(&plan, &q), 3);
}

TEST(registers_beyond_the_first_page)
{
    units[0].cap = (CAP_USUAL & ~(0x3ffULL << 24)) | 0x100ULL << 24; /* FRO 0x1000 */
    units[1].ecap = (ECAP_USUAL & ~0x3ff00ULL) | 0x2ffULL << 8; /* IRO 0x2ff0: ends with the page */
    units[2].ecap = (ECAP_USUAL & ~0x3ff00ULL) | 0x300ULL << 8;
    assert_true(find(X2APIC_OFF));
    assert_int_equal(plan.dmar.units[0].size, 2 * PAGE_SIZE);
    assert_int_equal(plan.dmar.units[1].size, 3 * PAGE_SIZE);
    assert_int_equal(plan.dmar.units[2].size, 4 * PAGE_SIZE);
    units[0].cap |= 0xffULL << 40; /* 256 fault records: to 0x2000 exactly */
    assert_true(find(X2APIC_OFF));
    assert_int_equal(plan.dmar.units[0].size, 2 * PAGE_SIZE);
    units[0].cap += 1ULL << 24;
    assert_true(find(X2APIC_OFF));
    assert_int_equal(plan.dmar.units[0].size, 3 * PAGE_SIZE);
}

static void assert_refused(enum x2apic_use x2apic, const char *said)
{
    assert_false(find(x2apic));
    assert_int_equal(plan.dmar.unit_count, 0);
    assert_int_equal(vtd_pages_needed(&plan, &q), 0);
    assert_contains(plan.why.line, said);
    assert_false(vtd_start(&plan, &q, ept_root));
    for (unsigned i = 0; i < UNITS; i++)
        assert_int_equal(units[i].root_register, 0); /* nothing was touched */
}

TEST(no_table)
{
    assert_false(vtd_find_units(0, X2APIC_OFF, q.top, &plan));
    assert_int_equal(plan.dmar.unit_count, 0);
    assert_contains(plan.why.line, "no ACPI table DMAR");
    t->dmar.units[1].length = 3;
    assert_refused(X2APIC_OFF, "damaged");
}

TEST(x2apic)
{
    assert_true(find(X2APIC_ON));
    units[2].status = IRE;
    assert_true(find(X2APIC_OFF));
    assert_refused(X2APIC_ON, "x2APIC");
    units[2].status = 0;
    assert_refused(X2APIC_FORCED, "x2APIC");
}

TEST(units_that_cannot)
{
    units[1].ecap &= ~2ULL;
    assert_refused(X2APIC_OFF, "queued invalidation");
    units[1].ecap = ECAP_USUAL;
    units[1].cap &= ~CAP_4_LEVELS;
    assert_refused(X2APIC_OFF, "levels");
    units[1].cap = CAP_USUAL;
    units[2].absent = true;
    assert_refused(X2APIC_OFF, "levels");
}

/* MGAW, and the 512 GiB of three levels. */
TEST(memory_beyond_reach)
{
    units[1].cap = (CAP_USUAL & ~0x3f0000ULL) | 31 << 16;
    assert_true(find(X2APIC_OFF));
    q.top += PAGE_SIZE;
    assert_refused(X2APIC_OFF, "0x100000000");
    for (unsigned i = 0; i < UNITS; i++)
        units[i].cap = (CAP_USUAL & ~0x3f0000ULL) | 47 << 16;
    q.top = 512 * GIB;
    units[0].cap = (units[0].cap & ~CAP_4_LEVELS) | CAP_3_LEVELS;
    units[1].cap |= CAP_3_LEVELS;
    units[2].cap |= CAP_3_LEVELS;
    assert_true(find(X2APIC_OFF));
    q.top += PAGE_SIZE;
    assert_refused(X2APIC_OFF, "0x8000000000");
    units[0].cap |= CAP_4_LEVELS;
    assert_true(find(X2APIC_OFF));
}

/* ---- starts ---- */

TEST(after_reset)
{
    assert_int_equal(contain(), 3);
    assert_int_equal(table(table(units[0].root)[0])[0] & ~0xfffULL, ept_root); /* the EPT itself */
    assert_false(caches_flushed);
}

TEST(units_that_do_not_snoop)
{
    units[2].ecap &= ~1ULL;
    contain();
    assert_true(caches_flushed);
}

TEST(units_with_write_buffers)
{
    units[1].cap |= CAP_FLUSH;
    contain();
    assert_true(units[1].flushed && !units[0].flushed);
}

TEST(units_without_drains)
{
    units[0].cap &= ~(1ULL << 54);
    units[1].cap &= ~(1ULL << 55);
    contain();
}

TEST(protected_memory)
{
    for (unsigned i = 0; i < UNITS; i++) {
        units[i].cap |= i == 0 ? 0x20 : i == 1 ? 0x40 : CAP_PROTECTED;
        units[i].protected = 0x80000001u;
    }
    contain();
}

TEST(page_sizes)
{
    units[1].cap &= ~CAP_1G;
    assert_true(contain() > 3);
    assert_int_equal(reset(NULL), 0);
    units[1].cap &= ~(CAP_1G | CAP_2M);
    assert_true(contain() > 2048);
    assert_int_equal(reset(NULL), 0);
    units[1].cap &= ~CAP_2M;
    assert_true(contain() > 3);
    /* Where the EPT does not use a size, it is all the same whether a unit has it. */
    for (unsigned use = 0; use < 4; use++)
        for (unsigned have = 0; have < 4; have++) {
            reset(NULL);
            q.page_1g = use & 1;
            q.page_2m = use & 2;
            q.top = GIB;
            ept_root = ept_build(&q);
            units[1].cap &= ~((have & 1 ? 0 : CAP_1G) | (have & 2 ? 0 : CAP_2M));
            assert_int_equal(contain() == 3, (use & have) == use);
        }
}

TEST(three_levels)
{
    for (unsigned i = 0; i < UNITS; i++)
        units[i].cap |= CAP_3_LEVELS;
    units[2].cap &= ~CAP_4_LEVELS;
    contain();
}

/* Firmware's own tables, queue and interrupt remapping are on; translation never goes off. */
TEST(taken_over)
{
    static uint64_t commands[512] __attribute__((aligned(4096)));

    for (unsigned i = 0; i < UNITS; i++) {
        struct unit *u = &units[i];
        u->status = TE | QIE | IRE | RTP | 1u << 24;
        u->root = u->root_register = 0x1234000;
        u->queue = (uintptr_t)commands;
        u->head = 0x100;
        u->tail = 0x230;
        u->contexts_stale = u->pages_stale = true;
    }
    contain();
    for (unsigned i = 0; i < UNITS; i++)
        assert_false(units[i].was_off);
}

/* Tables of scalable mode: translation has to be off for a moment. */
TEST(taken_over_from_scalable_mode)
{
    units[1].status = TE | RTP;
    units[1].root = units[1].root_register = 0x1234400;
    contain();
    assert_true(units[1].was_off && !units[0].was_off);
}

/* A queue that stands still because of an error is turned off as it is. */
TEST(queue_with_an_error)
{
    units[0].status = QIE;
    units[0].queue = 0x5000;
    units[0].head = 0x10;
    units[0].tail = 0x30;
    units[0].fault_status = 0x10;
    units[1].fault_status = 0x60;
    contain();
    assert_int_equal(units[0].fault_status, 0);
}

static char logged[4096];

static void keep(const char *text, size_t length)
{
    size_t used = strlen(logged);

    if (used + length < sizeof(logged)) {
        memcpy(logged + used, text, length);
        logged[used + length] = '\0';
    }
}

static void assert_stuck(const char *said)
{
    assert_true(find(X2APIC_OFF));
    logged[0] = '\0';
    log_set_sink(LOG_SCREEN, keep);
    assert_false(vtd_start(&plan, &q, ept_root));
    log_set_sink(LOG_SCREEN, NULL);
    assert_contains(logged, "DMA is not contained: the VT-d unit at 0xfeda0000 does not ");
    assert_contains(logged, said);
    reset(NULL);
}

/* Every wait ends, and the line says what did not happen. */
TEST(units_that_do_not_obey)
{
    struct unit *u = &units[1];

    u->status = QIE;
    u->stuck = QIE;
    assert_stuck("queued invalidation off");
    u->stuck = QIE;
    assert_stuck("queued invalidation on");
    u->cap |= CAP_FLUSH;
    u->stuck = WBF;
    assert_stuck("write buffers");
    u->status = TE;
    u->stuck = TE;
    u->root = u->root_register = 0x400;
    assert_stuck("translation off");
    u->stuck = RTP;
    assert_stuck("root table");
    u->queue_stuck = true;
    assert_stuck("caches");
    u->stuck = TE;
    assert_stuck("translation on");
    u->cap |= CAP_PROTECTED;
    u->protected_stuck = true;
    assert_stuck("protected");
    u->status = IRE;
    u->stuck = IRE;
    assert_stuck("interrupt remapping off");
}

static void start_units(void) { (void)vtd_start(&plan, &q, ept_root); }

TEST(pool_is_used_up)
{
    assert_true(find(X2APIC_OFF));
    assert_non_null(page_alloc(page_pool_free() - 2));
    assert_uses_up_pool(start_units);
    for (unsigned i = 0; i < UNITS; i++)
        assert_int_equal(units[i].status, 0);
    reset(NULL);
    units[1].cap &= ~(CAP_1G | CAP_2M);
    assert_true(find(X2APIC_OFF));
    assert_non_null(page_alloc(page_pool_free() - 100));
    assert_uses_up_pool(start_units);
    assert_int_equal(units[0].status, 0);
}

/* A line for firmware's region where a byte of it is hidden, and for no other. */
TEST(region_that_is_hidden)
{
    static const struct {
        uint64_t base, limit;
        bool line;
    } at[] = {{0x3ffff000, 0x3fffffff, false}, {0x3ffff000, 0x40000000, true},
              {0x403ff000, 0x403fffff, true},  {0x40400000, 0x40400fff, false},
              {0x3f000000, 0x50000000, true},  {0x40001000, 0x40001fff, true}};

    for (unsigned i = 0; i < COUNT(at); i++) {
        reset(NULL);
        t->dmar.region.base = at[i].base;
        t->dmar.region.limit = at[i].limit;
        assert_true(find(X2APIC_OFF));
        logged[0] = '\0';
        log_set_sink(LOG_SCREEN, keep);
        assert_true(vtd_start(&plan, &q, ept_root));
        log_set_sink(LOG_SCREEN, NULL);
        assert_contains(logged, "pmuvisor: DMA contained by 3 VT-d units");
        assert_int_equal(strstr(logged, "DMA region") != NULL, at[i].line);
    }
}
