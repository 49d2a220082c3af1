/* SPDX-License-Identifier: BSD-2-Clause
 *
 * DMA containment on a machine that has VT-d and no VMX (QEMU): an EFI application that links the
 * hypervisor's own mm/vtd.c, mm/dmar.c and mm/ept.c and takes the hypervisor's place. A device does
 * DMA into ordinary memory and into the pool, which is hidden. One line "vtd: ok NAME" or
 * "vtd: FAIL NAME" for each check, "vtd: end" at the end; then QEMU ends.
 */
#include <efi.h>

#include <string.h>

#include "console/log.h"
#include "edu.h"
#include "guest/acpi_edit.h"
#include "lib/acpi.h"
#include "mm/mmio.h"
#include "mm/vtd.h"
#include "mm/vtd_registers.h"
#include "tests/firmware/firmware.h"
#include "x86.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define LARGE_PAGE (2 * MIB)
#define POOL_SIZE (32 * MIB)
#define BYTES 2048u /* the device refuses its whole buffer */
#define SECRET 0x5ec2e75ec2e75ec2ULL
#define ORDINARY 0x0d1a0d1a0d1a0d1aULL
#define SCRATCH_READS 10000000

/* Second-level entries of the map that the test makes as firmware. */
#define SL_RW 3ULL
#define SL_PAGE (1ULL << 7)
/* Registers that only the test uses. */
#define VTD_FRCD_FAULT (1ULL << 63)
#define VTD_FRCD_REQUESTER 0xffffULL
#define VTD_IRTA 0xb8
#define IRTA_SIZE_256 7ULL
#define FSTS_OVERFLOW_AND_PENDING 3u

static struct range pool;
static uint64_t *ordinary; /* a page that devices may use */
static uint64_t *victim;   /* a page of the pool */
static uint64_t rsdp;
static unsigned failed;

/* crt0 of GNU-EFI calls this by the System V convention. */
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system);

static void check(const char *scenario, const char *name, bool holds)
{
    log_printf("vtd: %s %s/%s\n", holds ? "ok" : "FAIL", scenario, name);
    failed += !holds;
}

static _Noreturn void end(void)
{
    log_printf("vtd: end, %u failed\n", failed);
    firmware_end(failed != 0);
}

static void report_pool_end(uint64_t count)
{
    log_printf("vtd: the page pool is used up: found %lu pages, wanted %lu\n", page_pool_free(),
               count);
    firmware_end(true);
}

static void fill(uint64_t *page, uint64_t value)
{
    for (unsigned i = 0; i < BYTES / sizeof(*page); i++)
        page[i] = value;
}

static bool is_all(const uint64_t *page, uint64_t value)
{
    const volatile uint64_t *seen = page;

    for (unsigned i = 0; i < BYTES / sizeof(*page); i++)
        if (seen[i] != value)
            return false;
    return true;
}

/* ---- one DMA each; true: it arrived ---- */

/* The device's buffer gets ORDINARY and is written to `page`, which holds SECRET before. */
static bool dma_write_lands(uint64_t *page)
{
    fill(ordinary, ORDINARY);
    bool ran = edu_read((uintptr_t)ordinary, BYTES);
    fill(page, SECRET);
    ran = ran && edu_write((uintptr_t)page, BYTES);
    return !ran || !is_all(page, SECRET);
}

/* The device reads `page`, which holds SECRET, and its buffer comes out through ordinary memory. */
static bool dma_read_lands(uint64_t *page)
{
    fill(ordinary, ORDINARY);
    bool ran = edu_read((uintptr_t)ordinary, BYTES);
    fill(page, SECRET);
    ran = ran && edu_read((uintptr_t)page, BYTES);
    fill(ordinary, 0);
    ran = ran && edu_write((uintptr_t)ordinary, BYTES);
    for (unsigned i = 0; i < BYTES / sizeof(*ordinary); i++)
        if (((const volatile uint64_t *)ordinary)[i] == SECRET)
            return true;
    return !ran;
}

static bool ordinary_works(void)
{
    fill(ordinary, ORDINARY);
    if (!edu_read((uintptr_t)ordinary, BYTES))
        return false;
    fill(ordinary, 0);
    return edu_write((uintptr_t)ordinary, BYTES) && is_all(ordinary, ORDINARY);
}

/* ---- the unit, seen from outside ---- */

static void clear_faults(uint64_t unit)
{
    uint64_t record = unit + CAP_FRO(mmio_read_64(unit + VTD_CAP));

    mmio_write_64(record + 8, VTD_FRCD_FAULT);
    mmio_write_32(unit + VTD_FSTS, FSTS_OVERFLOW_AND_PENDING);
}

static bool fault_says(uint64_t unit, uint64_t page)
{
    uint64_t record = unit + CAP_FRO(mmio_read_64(unit + VTD_CAP));
    uint64_t high = mmio_read_64(record + 8);

    return high & VTD_FRCD_FAULT && (high & VTD_FRCD_REQUESTER) == edu_requester() &&
           mmio_read_64(record) == page;
}

static void global_command(uint64_t unit, uint32_t bit, bool on)
{
    uint32_t status = mmio_read_32(unit + VTD_GSTS) & (uint32_t)~GLOBAL_ONE_SHOT;

    mmio_write_32(unit + VTD_GCMD, on ? status | bit : status & ~bit);
}

static void unit_off(uint64_t unit)
{
    global_command(unit, GLOBAL_TE, false);
    global_command(unit, GLOBAL_IRE, false);
    global_command(unit, GLOBAL_QIE, false);
}

/* As firmware with DMA protection might: tables of its own that allow everything below 4 GiB in the
 * pool's last pages, a queue with something in it, interrupt remapping; left on. */
static void firmware_takes(uint64_t unit)
{
    static uint64_t status;
    uint64_t *pages = (uint64_t *)(uintptr_t)(pool.base + pool.size - 8 * PAGE_SIZE);
    uint64_t *root = pages, *context = pages + 512, *top = pages + 1024, *pdpt = pages + 1536;
    uint64_t *queue = pages + 2048, *interrupts = pages + 2560;
    bool four = mmio_read_64(unit + VTD_CAP) & CAP_SAGAW_4_LEVELS;

    memset(pages, 0, 6 * PAGE_SIZE);
    for (unsigned i = 0; i < 256; i++) {
        root[2 * i] = (uintptr_t)context | ENTRY_P;
        context[2 * i] = (uintptr_t)(four ? top : pdpt) | ENTRY_P;
        context[2 * i + 1] = 7 * CONTEXT_DOMAIN | (four ? 2 : 1);
    }
    top[0] = (uintptr_t)pdpt | SL_RW;
    for (unsigned i = 0; i < 4; i++)
        pdpt[i] = i * GIB | SL_RW | SL_PAGE;
    status = 0;
    queue[0] = IOTLB_INVALIDATE | INVALIDATE_GLOBAL;
    queue[2] = INVALIDATE_WAIT | WAIT_STATUS_WRITE | 1ULL << WAIT_STATUS_SHIFT;
    queue[3] = (uintptr_t)&status;
    mmio_write_64(unit + VTD_IQT, 0);
    mmio_write_64(unit + VTD_IQA, (uintptr_t)queue);
    global_command(unit, GLOBAL_QIE, true);
    mmio_write_64(unit + VTD_RTADDR, (uintptr_t)root);
    global_command(unit, GLOBAL_SRTP, true);
    global_command(unit, GLOBAL_TE, true);
    mmio_write_64(unit + VTD_IQT, 32);
    mmio_write_64(unit + VTD_IRTA, (uintptr_t)interrupts | IRTA_SIZE_256);
    global_command(unit, GLOBAL_SIRTP, true);
    global_command(unit, GLOBAL_IRE, true);
}

/* ---- scenarios ---- */

static void contained(const char *scenario, uint64_t unit)
{
    clear_faults(unit);
    check(scenario, "ordinary_memory", ordinary_works());
    check(scenario, "no_fault", !fault_says(unit, (uintptr_t)victim));
    check(scenario, "write_refused", !dma_write_lands(victim));
    check(scenario, "fault_recorded", fault_says(unit, (uintptr_t)victim));
    check(scenario, "read_refused", !dma_read_lands(victim));
    /* Zeros into the page with GCMD would turn translation off. */
    fill(ordinary, 0);
    check(scenario, "registers_refused",
          edu_read((uintptr_t)ordinary, BYTES) && edu_write(unit, 64) &&
              mmio_read_32(unit + VTD_GSTS) & GLOBAL_TE && !dma_write_lands(victim));
    uint32_t on = mmio_read_32(unit + VTD_GSTS);
    check(scenario, "interrupts_not_remapped", !(on & GLOBAL_IRE));
}

static void start(const char *scenario, const struct vtd_plan *plan, struct ept_request *q,
                  uint64_t ept_root)
{
    uint64_t before = page_pool_free(), wanted = vtd_pages_needed(plan, q);
    bool done = vtd_start(plan, q, ept_root);

    check(scenario, "started", done);
    check(scenario, "pages_as_announced", before - page_pool_free() <= wanted);
}

static void hide_table(void)
{
    check("acpi", "hide_says_done", guest_acpi_hide(rsdp, "DMAR"));
    check("acpi", "dmar_hidden", acpi_find_table(rsdp, "DMAR", 0) == NULL);
    check("acpi", "others_stay",
          acpi_find_table(rsdp, "FACP", 0) != NULL && acpi_find_table(rsdp, "APIC", 0) != NULL &&
              acpi_find_table(rsdp, "MCFG", 0) != NULL);
    check("acpi", "both_lists_right",
          acpi_read_xsdt(rsdp).table != NULL && acpi_read_rsdt(rsdp).table != NULL);
}

static void run(void)
{
    static struct vtd_plan plan, lacking;
    static struct mtrr_state mtrr;
    static struct range hidden[DMAR_UNITS_MAX + 1];
    struct ept_request q = {0};

    check("control", "device_found", edu_find());
    check("control", "ordinary_memory", ordinary_works());
    check("control", "write_lands_without_translation", dma_write_lands(victim));
    check("control", "read_lands_without_translation", dma_read_lands(victim));
    if (!vtd_find_units(rsdp, X2APIC_OFF, 4 * GIB, &plan)) {
        check("none", "not_started", !vtd_start(&plan, &q, 0));
        check("none", "no_pages", vtd_pages_needed(&plan, &q) == 0);
        return;
    }
    uint64_t unit = plan.dmar.units[0].base;

    mtrr_read(&mtrr);
    hidden[0] = pool;
    memcpy(&hidden[1], plan.dmar.units, plan.dmar.unit_count * sizeof(hidden[0]));
    q = (struct ept_request){.mtrr = &mtrr,
                             .hidden = hidden,
                             .hidden_count = plan.dmar.unit_count + 1,
                             .address_bits = cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax & 0xff,
                             .page_1g = true,
                             .page_2m = true,
                             .top = 4 * GIB};
    uint64_t ept_root = ept_build(&q);
    check("plan", "x2apic_forced_refused", !vtd_find_units(rsdp, X2APIC_FORCED, 4 * GIB, &lacking));
    check("plan", "x2apic_without_remapping", vtd_find_units(rsdp, X2APIC_ON, 4 * GIB, &lacking));
    check("plan", "unit_untouched", mmio_read_32(unit + VTD_GSTS) == 0);

    start("shared", &plan, &q, ept_root);
    contained("shared", unit);

    unit_off(unit);
    check("off", "write_lands", dma_write_lands(victim));
    check("off", "ordinary_memory", ordinary_works());

    firmware_takes(unit);
    check("takeover", "firmware_map_in_use",
          dma_write_lands(victim) && mmio_read_32(unit + VTD_GSTS) & GLOBAL_TE &&
              mmio_read_32(unit + VTD_GSTS) & GLOBAL_QIE);
    if (mmio_read_32(unit + VTD_GSTS) & GLOBAL_IRE)
        check("takeover", "x2apic_with_remapping_refused",
              !vtd_find_units(rsdp, X2APIC_ON, 4 * GIB, &lacking));
    start("takeover", &plan, &q, ept_root);
    contained("takeover", unit);

    lacking = plan;
    lacking.cap &= ~(CAP_SLLPS_2M | CAP_SLLPS_1G);
    start("small_pages", &lacking, &q, ept_root);
    contained("small_pages", unit);

    lacking = plan;
    lacking.cap &= ~CAP_SAGAW_4_LEVELS;
    start("three_levels", &lacking, &q, ept_root);
    contained("three_levels", unit);
    hide_table();
}

/* ---- firmware ---- */

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system)
{
    (void)image;
    uint64_t block = (uintptr_t)firmware_allocate(system, EfiLoaderData, POOL_SIZE + LARGE_PAGE);

    ordinary = firmware_allocate(system, EfiLoaderData, PAGE_SIZE);
    rsdp = firmware_rsdp(system);
    cli();
    serial_start(SERIAL_COM1, DIVISOR_115200);
    if (block == 0 || ordinary == NULL)
        check("control", "memory", false);
    else {
        pool.base = (block + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
        pool.size = POOL_SIZE;
        page_pool_set_exhausted_hook(report_pool_end);
        page_pool_init(pool);
        victim = page_alloc(1);
        run();
    }
    end();
}
