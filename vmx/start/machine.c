/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes over the machine from firmware and starts the guest: memory, page tables, processors,
 * launch. SDM Vol. 3, "Enabling and Entering VMX Operation".
 */
#include "vmx/hypervisor.h"

#include "apic/apic.h"
#include "console/framebuffer.h"
#include "console/log_ring.h"
#include "experiment.h"
#include "image.h"
#include "mm/vtd.h"
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"
#include "vmx/exit/report.h"
#include "vmx/mitigations.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"
#include "vmx/start/start.h"
#include "vmx/start/tsc.h"

#define LOG_PAGES ((sizeof(struct log_ring) + PAGE_SIZE - 1) / PAGE_SIZE)
#define POOL_FIXED_PAGES (18 + LOG_PAGES) /* pages that do not belong to one processor */
#define LARGE_PAGE (2ULL << 20)
#define PAGES_PER_TABLE 512

/* The guest's memory map, and the VT-d plan that confines devices to it. */
struct map {
    struct mtrr_state mtrr;
    struct range hidden[3 + DMAR_UNITS_MAX];
    struct ept_request q;
    struct vtd_plan vtd;
};

static enum x2apic_use detect_x2apic_use(const struct acpi_facts *acpi)
{
    for (uint32_t i = 0; i < acpi->processors && i < PROCESSORS_MAX; i++)
        if (acpi->apic_id[i] > XAPIC_ID_MAX)
            return X2APIC_FORCED;
    if (read_arch_capabilities() & ARCH_CAP_XAPIC_DISABLE &&
        rdmsr(IA32_XAPIC_DISABLE_STATUS) & XAPIC_DISABLE_LEGACY)
        return X2APIC_FORCED;
    return rdmsr(IA32_APIC_BASE) & APIC_BASE_EXTD ? X2APIC_ON : X2APIC_OFF;
}

static void plan_ept_and_vtd(const struct boot_info *bi, const struct vmx_capability *c,
                             struct range readable, struct map *m)
{
    uint32_t count = 0;

    mtrr_read(&m->mtrr);
    m->hidden[count++] = bi->image;
    m->hidden[count++] = bi->pool;
    if (bi->options.apic_trap)
        m->hidden[count++] = apic_page();
    m->vtd.dmar.unit_count = 0;
    if (bi->options.vtd)
        vtd_find_units(bi->acpi.rsdp, detect_x2apic_use(&bi->acpi), bi->memory_top, &m->vtd);
    else
        refuse(&m->vtd.why, REFUSE_UNSUPPORTED, "vtd=off");
    for (uint32_t i = 0; i < m->vtd.dmar.unit_count; i++)
        m->hidden[count++] = m->vtd.dmar.units[i];
    m->q = (struct ept_request){
        .mtrr = &m->mtrr,
        .hidden = m->hidden,
        .hidden_count = count,
        .readable = readable,
        .address_bits = c->physical_address_bits,
        .page_1g = c->ept_vpid & EPT_CAP_PAGE_1G,
        .page_2m = c->ept_vpid & EPT_CAP_PAGE_2M,
        .top = bi->memory_top,
    };
}

uint64_t hypervisor_pool_size(const struct boot_info *bi)
{
    struct vmx_capability capability;
    struct map map;

    vmx_capability_read(&capability);
    plan_ept_and_vtd(bi, &capability, (struct range){0, experiments_guest_readable_bytes(bi)},
                     &map);
    uint64_t tables = ept_pages_needed(&map.q);
    uint64_t pages = POOL_FIXED_PAGES + tables + vtd_pages_needed(&map.vtd, &map.q) +
                     experiments_pages_needed(bi, tables) +
                     experiments_guest_readable_bytes(bi) / PAGE_SIZE +
                     /* a processor that fails to start has still used its pages */
                     (bi->acpi.processors > 1 ? bi->acpi.processors : 1) *
                         (PROCESSOR_PAGES + experiments_place_state() / PAGE_SIZE);
    /* The hypervisor's own page tables map the pool and the screen in 4 KiB pages. They also map
     * the image and the APIC. */
    pages += framebuffer_bytes(&bi->framebuffer) / LARGE_PAGE + pages / PAGES_PER_TABLE + 20;
    return (pages * PAGE_SIZE + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
}

static struct range range_between(const char *start, const char *end)
{
    return (struct range){(uint64_t)start, (uint64_t)(end - start)};
}

static uint64_t build_host_paging(const struct boot_info *bi)
{
    const struct {
        struct range range;
        enum host_access access;
    } maps[] = {{range_between(image_text_start, image_text_end), HOST_READ_EXECUTE},
                {range_between(image_rodata_start, image_rodata_end), HOST_READ_ONLY},
                {range_between(image_data_start, image_data_end), HOST_READ_WRITE},
                {bi->pool, HOST_READ_WRITE},
                {apic_page(), HOST_DEVICE},
                {framebuffer_memory(), HOST_DEVICE}}; /* for fault reports at any time */
    uint64_t root = host_paging_new();

    for (unsigned i = 0; i < LENGTH_OF(maps); i++)
        if (!host_paging_map(root, maps[i].range, maps[i].access))
            hypervisor_fault(
                "memory 0x%lx+0x%lx cannot be mapped: found no canonical address range",
                maps[i].range.base, maps[i].range.size);
    host_paging_unmap(root, get_reset_doorbell(bi));
    return root;
}

/* Builds the EPT, and from then on confines devices to it. Returns the EPT's root. */
static uint64_t build_ept_and_vtd(const struct boot_info *bi, const struct vmx_capability *c)
{
    struct map map;

    plan_ept_and_vtd(bi, c, experiments_reserve(bi), &map);
    uint64_t root = ept_build(&map.q);
    /* The guest can read the log, so the log never contains an address of the hypervisor. */
    log_printf("pmuvisor: EPT maps 0x0 to 0x%lx, hidden: image %lu KiB, pool %lu KiB\n",
               ept_get_address_limit(&map.q), bi->image.size >> 10, bi->pool.size >> 10);
    vtd_start(&map.vtd, &map.q, root);
    if (map.vtd.dmar.unit_count > 0 && !guest_acpi_hide(bi->acpi.rsdp, "DMAR"))
        log_printf("pmuvisor: the ACPI table DMAR could not be hidden from the guest\n");
    return root;
}

/* Logs the configuration in which the guest is about to start. */
static void log_configuration(const struct cpu *cpu)
{
    mitigations_print(cpu);
    log_printf(
        "pmuvisor: starting the guest, policy %s, local APIC %s, NMIs %s, "
        "GLOBAL_CTRL: %s\n",
        cpu->boot->options.policy_name, cpu->boot->options.apic_trap ? "trapped" : "passed through",
        cpu->nmi.passthrough ? "passed through" : "trapped", pmu_switch_name(cpu->pmu.global_ctrl));
    if (cpu->pmu.pebs_switched)
        log_printf(
            "pmuvisor: PEBS is not isolated on this processor: IA32_PEBS_ENABLE is 0 in root "
            "mode, by MSR lists; a newer microcode may make that needless\n");
}

/* Runs on the hypervisor's own page tables and stack. */
static _Noreturn void start_guest(struct start *s)
{
    wrmsr(IA32_GS_BASE, (uint64_t)s->cpu); /* 32-bit code may have run since GS was loaded */
    processor_enter_vmx(s, true);
    s->cpu->gpr[GPR_RSI] = s->guest.rsi;
    log_configuration(s->cpu);
    framebuffer_stop();
    processors_enter_guest();
    s->cpu->nmi.guest_started = true;
    vmx_launch();
}

static void report_pool_exhausted(uint64_t count)
{
    hypervisor_fault("the page pool is used up: found %lu pages, wanted %lu", page_pool_free(),
                     count);
}

void hypervisor_start(const struct boot_info *bi)
{
    struct refusal refusal;

    set_stop_hooks((struct end_hooks){.ask = nmi_request_backtrace, .report = report_fault});
    page_pool_set_exhausted_hook(report_pool_exhausted);
    page_pool_init(bi->pool);
    log_move_ring(page_alloc(LOG_PAGES)); /* first, so that the log is at POOL_LOG_OFFSET */
    struct start *s = processor_new(bi, apic_id_read(), build_host_paging(bi));
    struct cpu *cpu = s->cpu;

    if (!processor_choose_controls(s))
        hypervisor_fault("%s", s->refusal.line);
    cpu->ept_root = build_ept_and_vtd(bi, &s->capability);
    if (bi->options.tick_ms != 0 || experiments_need_tsc())
        cpu->tsc_khz = tsc_khz(bi->acpi.pm_timer);
    processor_set_up_exits(s);
    processors_start(bi, s);
    if (!linux_load(bi, &processors, &s->guest, &refusal))
        hypervisor_fault("%s", refusal.line);

    uint64_t target = (uint64_t)start_guest, cr3 = cpu->host_cr3, page = 0;
    if (read_cr4() & CR4_LA57)
        target = leave_5_level_paging(s, start_guest, &page, &cr3);

    /* After the switch of page tables below, only the image, the pool, the APIC and the screen are
     * mapped. */
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_NXE);
    /* Switch the stack before the page tables: an NMI in between returns through the stack
     * (nmi/nmi.asm), and the new page tables do not map firmware's stack. */
    __asm__ volatile("mov %1, %%rsp\n\t"
                     "mov %0, %%cr3\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%2\n\t"
                     "ud2"
                     :
                     : "a"(cr3), "d"(cpu->root_stack), "c"(target), "D"(s), "b"(page)
                     : "memory");
    __builtin_unreachable();
}
