/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes the machine from firmware and starts the guest: memory, page tables, processors, launch.
 * SDM Vol. 3, "Enabling and Entering VMX Operation".
 */
#include "hypervisor.h"

#include "../apic/apic.h"
#include "../pmu/pmu.h"
#include "fault.h"
#include "image.h"
#include "processor.h"

#define POOL_FIXED_PAGES 16 /* what is not of one processor */
#define LARGE_PAGE (2ULL << 20)
#define PAGES_PER_TABLE 512

static void ept_request_of(const struct vmx_capability *c, uint64_t memory_top,
                           struct ept_request *q)
{
    *q = (struct ept_request){
        .address_bits = c->physical_address_bits,
        .page_1g = c->ept_vpid & EPT_CAP_PAGE_1G,
        .page_2m = c->ept_vpid & EPT_CAP_PAGE_2M,
        .top = memory_top,
    };
}

uint64_t hypervisor_pool_size(const struct boot_info *bi)
{
    struct vmx_capability capability;
    struct mtrr_state mtrr;
    struct ept_request q;
    struct range hidden[3] = {{0, 0}}; /* only their number counts here */

    vmx_capability_read(&capability);
    mtrr_read(&mtrr);
    ept_request_of(&capability, bi->memory_top, &q);
    q.mtrr = &mtrr;
    q.hidden = hidden;
    q.hidden_count = bi->options.apic_trap ? 3 : 2;
    uint64_t pages = POOL_FIXED_PAGES + ept_pages_needed(&q) +
                     (bi->acpi.processors > 1 ? bi->acpi.processors : 1) * PROCESSOR_PAGES;
    /* The hypervisor's own tables map the pool in 4 KiB pages, and image and APIC beside it. */
    pages += pages / PAGES_PER_TABLE + 16;
    return (pages * PAGE_SIZE + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
}

static struct range between(const char *start, const char *end)
{
    return (struct range){(uint64_t)start, (uint64_t)(end - start)};
}

static uint64_t build_host_paging(const struct boot_info *bi)
{
    uint64_t root = host_paging_new();
    bool ok = root != 0;

    ok = ok && host_paging_map(root, between(image_text_start, image_text_end), HOST_READ_EXECUTE);
    ok = ok && host_paging_map(root, between(image_rodata_start, image_rodata_end), HOST_READ_ONLY);
    ok = ok && host_paging_map(root, between(image_data_start, image_data_end), HOST_READ_WRITE);
    ok = ok && host_paging_map(root, bi->pool, HOST_READ_WRITE);
    ok = ok && host_paging_map(root, apic_page(), HOST_DEVICE);
    if (!ok)
        hypervisor_fault("the page pool is used up by the hypervisor's own page tables");
    host_paging_unmap(root, reset_doorbell(bi));
    return root;
}

static uint64_t build_ept(const struct boot_info *bi, const struct vmx_capability *c)
{
    const struct range hidden[] = {bi->image, bi->pool, apic_page()};
    struct mtrr_state mtrr;
    struct ept_request q;

    mtrr_read(&mtrr);
    ept_request_of(c, bi->memory_top, &q);
    q.mtrr = &mtrr;
    q.hidden = hidden;
    q.hidden_count = bi->options.apic_trap ? 3 : 2;
    uint64_t root = ept_build(&q);
    if (root == 0)
        hypervisor_fault("the page pool is used up by the EPT");
    log_printf("pmuvisor: EPT maps 0x0 to 0x%lx, hidden: image 0x%lx+0x%lx, pool 0x%lx+0x%lx\n",
               ept_reach(&q), bi->image.base, bi->image.size, bi->pool.base, bi->pool.size);
    return root;
}

/* On the hypervisor's own page tables and stack. */
static _Noreturn void start_guest(struct start *s)
{
    const struct cpu *cpu = s->cpu;

    processor_enter_vmx(s, true);
    s->cpu->gpr[GPR_RSI] = s->guest.rsi;
    log_printf("pmuvisor: starting the guest, policy %s, local APIC %s, NMIs %s, "
               "GLOBAL_CTRL: %s\n",
               policy_name(cpu->boot->options.policy),
               cpu->boot->options.apic_trap ? "trapped" : "passed through",
               cpu->nmi.passthrough ? "passed through" : "trapped",
               pmu_switch_name(cpu->pmu.global_ctrl));
    processors_go();
    processor_launch(s);
}

void hypervisor_start(const struct boot_info *bi)
{
    struct refusal refusal;

    /* Firmware's shadow stack knows nothing of the far return in descriptors_load(). */
    write_cr4(read_cr4() & ~CR4_CET);
    page_pool_init(bi->pool);
    struct start *s = processor_new(bi, apic_id_read(), build_host_paging(bi));
    struct cpu *cpu = s->cpu;

    if (!processor_check(s))
        hypervisor_fault("%s", s->refusal.line);
    cpu->ept_root = build_ept(bi, &s->capability);
    processor_prepare(s);
    processors_start(bi, s);
    if (!linux_load(bi, &processors, &s->guest, &refusal))
        hypervisor_fault("%s", refusal.line);

    /* From here on nothing but the image, the pool and the APIC is mapped. */
    framebuffer_stop();
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_NXE);
    /* The stack first: an NMI in between returns by way of the stack (nmi/nmi.asm), and these tables
     * do not map firmware's. */
    __asm__ volatile("mov %1, %%rsp\n\t"
                     "mov %0, %%cr3\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%2\n\t"
                     "ud2"
                     :
                     : "r"(cpu->host_cr3), "r"(cpu->root_stack), "r"(start_guest), "D"(s)
                     : "memory");
    __builtin_unreachable();
}
