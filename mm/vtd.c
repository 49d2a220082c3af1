/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Turns the VT-d units on. Touches their registers, which have to be mapped, and pages of the pool.
 * (VT-d specification, "DMA Remapping", "Software Setup of Remapping Hardware", "Invalidation of
 * Translation Caches".)
 *
 * All devices of all units share one context table, which names the guest's EPT. Second-level
 * entries of legacy mode have R, W, page size and address in the same bits as EPT entries. In
 * second-level entries, the hardware ignores the EPT's execute permission and memory type (bits 2
 * and 6:3). Some bits are reserved in one of the two formats, among them SNP (11) and TM (62).
 * These bits are clear in every entry that mm/ept.c makes. The other differences do no harm. The
 * EPT may lack the local APIC's page, but no unit looks up that page, because 0xfeexxxxx is the
 * interrupt address range. The units' own registers are kept from devices as well as from the
 * guest. (VT-d specification, "Second-Level Paging Entries", "Interrupt Address Range".)
 *
 * Legacy mode blocks requests with a PASID and requests that a device has translated itself
 * (context entry, TT 0).
 */
#include "mm/vtd.h"

#include "console/log.h"
#include "lib/acpi.h"
#include "lib/refusal.h"
#include "mm/mmio.h"
#include "mm/paging.h"
#include "mm/vtd_registers.h"
#include "vmx.h"

#define WAIT_READS 10000000 /* a few seconds; the specification sets no limit */
#define TABLE_PAGES 3       /* root table, context table, queue */
/* A wait command stores its status in the last word of the queue's page, which holds no command */
#define QUEUE_STATUS_WORD (TABLE_ENTRIES - 1)
#define ENTRY_WORDS 2

/* ---- what the units can do ---- */

static unsigned table_levels(const struct vtd_plan *plan)
{
    return plan->cap & CAP_SAGAW_4_LEVELS ? TABLE_LEVELS : TABLE_LEVELS - 1;
}

/* Registers can lie beyond the range that DMAR reports. */
static void widen_vtd_registers(struct range *registers, uint64_t cap, uint64_t ecap)
{
    uint64_t fault_end = CAP_FRO(cap) + CAP_NFR(cap) * REGISTER_PAIR;
    uint64_t iotlb_end = ECAP_IRO(ecap) + REGISTER_PAIR;

    while (registers->size < fault_end || registers->size < iotlb_end)
        registers->size += PAGE_SIZE;
}

static bool vtd_check_units(uint64_t rsdp, enum x2apic_use x2apic, uint64_t top,
                            struct vtd_plan *plan)
{
    const struct acpi_header *table = acpi_find_table(rsdp, "DMAR", 0);
    uint64_t reach = UINT64_MAX;

    if (table == NULL)
        return refuse(&plan->why, REFUSE_UNSUPPORTED,
                      "firmware reports no VT-d (no ACPI table DMAR)");
    if (!dmar_read(table, &plan->dmar))
        return refuse(&plan->why, REFUSE_UNSUPPORTED,
                      "the ACPI table DMAR is damaged, or has no unit or more than %u units or "
                      "regions",
                      DMAR_UNITS_MAX);
    plan->cap = plan->ecap = UINT64_MAX;
    for (uint32_t i = 0; i < plan->dmar.unit_count; i++) {
        uint64_t unit = plan->dmar.units[i].base;
        uint64_t cap = mmio_read_64(unit + VTD_CAP), ecap = mmio_read_64(unit + VTD_ECAP);

        if (cap == UINT64_MAX) /* no unit answers here */
            cap = 0;
        widen_vtd_registers(&plan->dmar.units[i], cap, ecap);
        plan->cap &= cap;
        plan->ecap &= ecap;
        if (reach > CAP_REACH(cap))
            reach = CAP_REACH(cap);
        if (x2apic == X2APIC_ON && mmio_read_32(unit + VTD_GSTS) & GLOBAL_IRE)
            x2apic = X2APIC_FORCED;
    }
    if (x2apic == X2APIC_FORCED)
        return refuse(&plan->why, REFUSE_UNSUPPORTED,
                      "the guest itself needs VT-d, to remap interrupts for x2APIC mode");
    if (!(plan->cap & CAP_SAGAW) || !(plan->ecap & ECAP_QI))
        return refuse(&plan->why, REFUSE_UNSUPPORTED,
                      "the VT-d units have in common capabilities 0x%lx and 0x%lx, wanted tables "
                      "of 3 or 4 levels and queued invalidation",
                      plan->cap, plan->ecap);
    if (reach > entry_span(table_levels(plan) + 1))
        reach = entry_span(table_levels(plan) + 1);
    return top <= reach ||
           refuse(&plan->why, REFUSE_UNSUPPORTED,
                  "memory ends at 0x%lx, but with VT-d devices reach only 0x%lx", top, reach);
}

bool vtd_find_units(uint64_t rsdp, enum x2apic_use x2apic, uint64_t top, struct vtd_plan *plan)
{
    bool can = vtd_check_units(rsdp, x2apic, top, plan);

    if (!can)
        plan->dmar.unit_count = 0;
    return can;
}

/* ---- tables ---- */

/* Copies the EPT's request `q` to *own, without the page sizes that a unit lacks. Returns true if
 * *own equals `q`. */
static bool limit_page_sizes(const struct vtd_plan *plan, const struct ept_request *q,
                             struct ept_request *own)
{
    *own = *q;
    own->page_2m = q->page_2m && plan->cap & CAP_SLLPS_2M;
    own->page_1g = q->page_1g && plan->cap & CAP_SLLPS_1G;
    return own->page_2m == q->page_2m && own->page_1g == q->page_1g;
}

uint64_t vtd_pages_needed(const struct vtd_plan *plan, const struct ept_request *q)
{
    struct ept_request own;

    if (plan->dmar.unit_count == 0)
        return 0;
    return TABLE_PAGES + (limit_page_sizes(plan, q, &own) ? 0 : ept_pages_needed(&own));
}

/* All buses have the same context table, and all devices in it have the same map. */
static void vtd_fill_tables(uint64_t *root, uint64_t *context, unsigned map_levels, uint64_t map)
{
    if (map_levels < TABLE_LEVELS)
        map = *(const uint64_t *)(uintptr_t)map & EPT_ADDRESS;
    for (unsigned i = 0; i < TABLE_ENTRIES; i += ENTRY_WORDS) {
        root[i] = (uint64_t)(uintptr_t)context | ENTRY_P;
        context[i] = map | ENTRY_P;
        context[i + 1] = CONTEXT_DOMAIN | (map_levels - CONTEXT_AW_LEVELS_MIN);
    }
}

/* ---- one unit ---- */

static bool wait_for_register(uint64_t address, uint32_t mask, uint32_t wanted)
{
    for (unsigned i = 0; i < WAIT_READS; i++)
        if ((mmio_read_32(address) & mask) == wanted)
            return true;
    return false;
}

/* Issues one command and waits until its status bit equals `done`. */
static bool issue_command(uint64_t unit, uint32_t bit, bool on, bool done)
{
    uint32_t status = mmio_read_32(unit + VTD_GSTS) & (uint32_t)~GLOBAL_ONE_SHOT;

    mmio_write_32(unit + VTD_GCMD, on ? status | bit : status & ~bit);
    return wait_for_register(unit + VTD_GSTS, bit, done ? bit : 0);
}

/* Uses the queue, because every unit has a queue. Units of a version above 5 have no invalidation
 * by registers. */
static bool invalidate_caches(uint64_t unit, uint64_t *queue, uint64_t cap)
{
    uint64_t status = (uint64_t)(uintptr_t)&queue[QUEUE_STATUS_WORD];
    const uint64_t commands[] = {
        CONTEXT_INVALIDATE | INVALIDATE_GLOBAL,
        0,
        IOTLB_INVALIDATE | INVALIDATE_GLOBAL | (cap & CAP_DRAIN) >> CAP_DRAIN_SHIFT,
        0,
        INVALIDATE_WAIT | WAIT_STATUS_WRITE | 1ULL << WAIT_STATUS_SHIFT,
        status,
    };

    for (unsigned i = 0; i < LENGTH_OF(commands); i++)
        queue[i] = commands[i];
    queue[QUEUE_STATUS_WORD] = 0;
    mmio_write_64(unit + VTD_IQT, sizeof(commands));
    return wait_for_register(status, 1, 1);
}

/* Returns the name of the step that failed, or NULL if all steps succeeded. If firmware has turned
 * translation on, with tables in legacy mode, translation stays on. With tables in another mode,
 * this function turns translation off first, because a unit cannot change the mode while
 * translation is on. */
static const char *start_unit(uint64_t unit, uint64_t root, uint64_t *queue)
{
    uint64_t cap = mmio_read_64(unit + VTD_CAP);

    mmio_write_32(unit + VTD_FECTL, FECTL_IM);
    /* Wait for the commands that firmware left in its queue. If an error has stopped these
     * commands, the wait ends after WAIT_READS reads. */
    if (mmio_read_32(unit + VTD_GSTS) & GLOBAL_QIE)
        wait_for_register(unit + VTD_IQH, IQ_POINTER, mmio_read_32(unit + VTD_IQT) & IQ_POINTER);
    if (!issue_command(unit, GLOBAL_QIE, false, false))
        return "turn queued invalidation off";
    mmio_write_32(unit + VTD_FSTS, FSTS_QUEUE_ERRORS);
    mmio_write_64(unit + VTD_IQT, 0);
    mmio_write_64(unit + VTD_IQA, (uint64_t)(uintptr_t)queue);
    if (!issue_command(unit, GLOBAL_QIE, true, true))
        return "turn queued invalidation on";
    if (cap & CAP_RWBF && !issue_command(unit, GLOBAL_WBF, true, false))
        return "flush its write buffers";
    if (mmio_read_64(unit + VTD_RTADDR) & RTADDR_TTM &&
        !issue_command(unit, GLOBAL_TE, false, false))
        return "turn translation off";
    mmio_write_64(unit + VTD_RTADDR, root);
    if (!issue_command(unit, GLOBAL_SRTP, true, true))
        return "take the root table";
    if (!invalidate_caches(unit, queue, cap))
        return "invalidate its caches";
    if (!issue_command(unit, GLOBAL_TE, true, true))
        return "turn translation on";
    if (cap & (CAP_PLMR | CAP_PHMR)) {
        mmio_write_32(unit + VTD_PMEN, mmio_read_32(unit + VTD_PMEN) & (uint32_t)~PMEN_EPM);
        if (!wait_for_register(unit + VTD_PMEN, PMEN_PRS, 0))
            return "turn protected memory regions off";
    }
    return issue_command(unit, GLOBAL_IRE, false, false) ? NULL : "turn interrupt remapping off";
}

/* ---- all units ---- */

static void warn_of_hidden_reserved_memory(const struct dmar *d, const struct ept_request *q)
{
    for (uint32_t i = 0; i < d->reserved_count; i++)
        for (uint32_t j = 0; j < q->hidden_count; j++)
            if (d->reserved[i].base - q->hidden[j].base < q->hidden[j].size ||
                q->hidden[j].base - d->reserved[i].base < d->reserved[i].size)
                log_printf("pmuvisor: firmware's DMA region 0x%lx+0x%lx is hidden in part: devices "
                           "that use it will fail\n",
                           d->reserved[i].base, d->reserved[i].size);
}

/* On failure, returns false and stores the reason in *r. */
static bool start_remapping_units(const struct vtd_plan *plan, uint64_t map, struct refusal *r)
{
    uint64_t *root = page_alloc(TABLE_PAGES);
    uint64_t *context = root + TABLE_ENTRIES, *queue = context + TABLE_ENTRIES;

    vtd_fill_tables(root, context, table_levels(plan), map);
    if (!(plan->ecap & ECAP_C))
        wbinvd();
    for (uint32_t i = 0; i < plan->dmar.unit_count; i++) {
        uint64_t unit = plan->dmar.units[i].base;
        const char *failed = start_unit(unit, (uint64_t)(uintptr_t)root, queue);

        if (failed != NULL)
            return refuse(r, REFUSE_UNSUPPORTED, "the VT-d unit at 0x%lx does not %s", unit,
                          failed);
    }
    return true;
}

bool vtd_start(const struct vtd_plan *plan, const struct ept_request *q, uint64_t ept_root)
{
    struct refusal why = plan->why;
    struct ept_request own;
    bool shared = limit_page_sizes(plan, q, &own);

    if (plan->dmar.unit_count == 0 ||
        !start_remapping_units(plan, shared ? ept_root : ept_build(&own), &why)) {
        log_printf("pmuvisor: DMA is not contained: %s\n", why.line);
        return false;
    }
    log_printf("pmuvisor: DMA contained by %u VT-d units, %u levels, %s\n", plan->dmar.unit_count,
               table_levels(plan), shared ? "the EPT's tables" : "own tables");
    warn_of_hidden_reserved_memory(&plan->dmar, q);
    return true;
}
