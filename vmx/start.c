/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes the machine from firmware and starts the guest: memory, page tables, descriptor tables,
 * VMX operation, VMCS, launch. SDM Vol. 3, "Enabling and Entering VMX Operation".
 */
#include "hypervisor.h"

#include "../apic/apic.h"
#include "../apic/apic_trap.h"
#include "../guest/linux.h"
#include "../pmu/pmu.h"
#include "../pmu/pmu_context.h"
#include "capability.h"
#include "check_guest.h"
#include "cpu.h"
#include "descriptors.h"
#include "exit.h"
#include "fault.h"
#include "image.h"
#include "log.h"
#include "mm.h"
#include "msr.h"
#include "setup.h"
#include "vmcs.h"
#include "x86.h"

#define STACK_PAGES 4 /* and a guard page below */
#define POOL_FIXED_PAGES 64 /* struct cpu, stacks, VMXON region, VMCS, bitmaps, descriptor tables */
#define LARGE_PAGE (2ULL << 20)
#define PAGES_PER_TABLE 512
#define INVALIDATE_ALL 2 /* INVEPT and INVVPID type: all contexts */
#define CPUID_1_ECX_XSAVE BIT(26)
#define CPUID_LEAF_EXTENDED 7
#define CPUID_7_EBX_PT BIT(25)

/* What start-up carries from firmware's page tables to the hypervisor's own. */
struct start {
    struct cpu *cpu;
    struct vmx_capability capability;
    struct vmx_controls controls;
    struct guest_entry guest;
    struct descriptor_tables tables;
};

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

uint64_t hypervisor_pool_size(const struct options *o, uint64_t memory_top)
{
    struct vmx_capability capability;
    struct mtrr_state mtrr;
    struct ept_request q;
    struct range hidden[3] = {{0, 0}}; /* only their number counts here */

    vmx_capability_read(&capability);
    mtrr_read(&mtrr);
    ept_request_of(&capability, memory_top, &q);
    q.mtrr = &mtrr;
    q.hidden = hidden;
    q.hidden_count = o->apic_trap ? 3 : 2;
    uint64_t pages = POOL_FIXED_PAGES + ept_pages_needed(&q);
    /* The hypervisor's own tables map the pool in 4 KiB pages, and image and APIC beside it. */
    pages += pages / PAGES_PER_TABLE + 16;
    return (pages * PAGE_SIZE + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
}

/* Ends a start that cannot go on and cannot go back. */
static void *needed(void *page)
{
    if (page == NULL)
        hypervisor_fault("the page pool is used up at the start");
    return page;
}

/* A stack with an unmapped page below it; gives the top. */
static uint64_t new_stack(uint64_t root)
{
    uint64_t base = (uint64_t)needed(page_alloc(STACK_PAGES + 1));

    host_paging_unmap(root, base);
    return base + (STACK_PAGES + 1) * PAGE_SIZE;
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

static void allow_vmx(void)
{
    uint64_t feature_control = rdmsr(IA32_FEATURE_CONTROL);

    if (!(feature_control & FEATURE_CONTROL_LOCK))
        wrmsr(IA32_FEATURE_CONTROL,
              feature_control | FEATURE_CONTROL_LOCK | FEATURE_CONTROL_VMX_OUTSIDE_SMX);
}

static void enter_vmx(const struct cpu *cpu, const struct vmx_capability *c)
{
    uint32_t revision = (uint32_t)(c->basic & VMX_BASIC_REVISION);
    uint64_t vmxon = (uint64_t)cpu->vmxon_region, vmcs = (uint64_t)cpu->vmcs;
    const struct {
        uint64_t low, high;
    } everything = {0, 0};
    bool failed, was_on = read_cr4() & CR4_VMXE;

    *(uint32_t *)cpu->vmxon_region = revision;
    *(uint32_t *)cpu->vmcs = revision;
    write_cr0((read_cr0() | CR0_NE | CR0_WP | c->cr0_fixed0) & c->cr0_fixed1 &
              ~(uint64_t)(CR0_TS | CR0_EM));
    write_cr4(CR4_PAE | CR4_MCE | c->cr4_fixed0 |
              (cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE ? CR4_OSXSAVE : 0));

    __asm__ volatile("vmxon %1" : "=@ccbe"(failed) : "m"(vmxon) : "memory");
    if (failed)
        hypervisor_fault("VMXON failed (IA32_FEATURE_CONTROL 0x%lx, CR0 0x%lx, CR4 0x%lx)%s",
                         rdmsr(IA32_FEATURE_CONTROL), read_cr0(), read_cr4(),
                         was_on ? ": firmware seems to use VMX itself" : "");
    __asm__ volatile("vmclear %1" : "=@ccbe"(failed) : "m"(vmcs) : "memory");
    if (failed)
        hypervisor_fault("VMCLEAR of 0x%lx failed", vmcs);
    __asm__ volatile("vmptrld %1" : "=@ccbe"(failed) : "m"(vmcs) : "memory");
    if (failed)
        hypervisor_fault("VMPTRLD of 0x%lx failed", vmcs);
    /* Whoever used VMX before may have left translations behind. */
    __asm__ volatile("invept %1, %2"
                     : "=@ccbe"(failed)
                     : "m"(everything), "r"((uint64_t)INVALIDATE_ALL)
                     : "memory");
    if (!failed && c->ept_vpid & EPT_CAP_INVVPID && c->ept_vpid & EPT_CAP_INVVPID_ALL)
        __asm__ volatile("invvpid %1, %2"
                         : "=@ccbe"(failed)
                         : "m"(everything), "r"((uint64_t)INVALIDATE_ALL)
                         : "memory");
    if (failed)
        hypervisor_fault("INVEPT or INVVPID of all contexts failed");
}

/* On the hypervisor's own page tables and stack. */
static _Noreturn void start_guest(struct start *s)
{
    enter_vmx(s->cpu, &s->capability);
    if (!pmu_context_setup(s->cpu))
        needed(NULL);
    s->cpu->gpr[GPR_RSI] = s->guest.rsi;
    vmcs_setup(s->cpu, &s->capability, &s->controls, &s->tables, &s->guest);
#ifdef DEBUG
    if (check_guest_state())
        log_printf("pmuvisor: guest state checked before the first entry: nothing wrong\n");
#endif
    log_printf("pmuvisor: starting the guest, policy %s, local APIC %s, NMIs %s, "
               "GLOBAL_CTRL: %s\n",
               policy_name(s->cpu->boot->options.policy),
               s->cpu->boot->options.apic_trap ? "trapped" : "passed through",
               s->cpu->nmi.passthrough ? "passed through" : "trapped",
               pmu_switch_name(s->cpu->pmu.global_ctrl));
    s->cpu->nmi.guest_started = true;
    vmx_launch();
}

/* The guest, which sees no Intel PT, could not stop a trace that firmware left running, and its buffer
 * is the guest's memory from now on. */
static void stop_trace(void)
{
    uint64_t control;

    if (cpuid(0, 0).eax >= CPUID_LEAF_EXTENDED && cpuid(CPUID_LEAF_EXTENDED, 0).ebx & CPUID_7_EBX_PT &&
        rdmsr_safe(IA32_RTIT_CTL, &control) && control & RTIT_CTL_TRACE_EN)
        wrmsr_safe(IA32_RTIT_CTL, control & ~RTIT_CTL_TRACE_EN);
}

static struct cpu *new_cpu(const struct boot_info *bi)
{
    uint64_t pages = (sizeof(struct cpu) + PAGE_SIZE - 1) / PAGE_SIZE;
    struct cpu *cpu = needed(page_alloc(pages));

    cpu->self = cpu;
    cpu->boot = bi;
    cpu->apic_id = apic_id_read();
    cpu->vmxon_region = needed(page_alloc(1));
    cpu->vmcs = needed(page_alloc(1));
    cpu->msr_bitmap = needed(page_alloc(1));
    cpu->io_bitmaps = needed(page_alloc(2));
    cpu->host_cr3 = build_host_paging(bi);
    cpu->root_stack = new_stack(cpu->host_cr3);
    cpu->fault_stack = new_stack(cpu->host_cr3);
    cpu->nmi_stack = new_stack(cpu->host_cr3);
    return cpu;
}

void hypervisor_start(const struct boot_info *bi)
{
    struct refusal refusal;

    /* Firmware's shadow stack knows nothing of the far return in descriptors_load(). */
    write_cr4(read_cr4() & ~CR4_CET);
    page_pool_init(bi->pool);
    struct start *s = needed(page_alloc(1));
    struct cpu *cpu = s->cpu = new_cpu(bi);

    if (!descriptors_load(cpu, &s->tables))
        needed(NULL);
    stop_trace();
    vmx_capability_read(&s->capability);
    if (!vmx_controls_choose(&s->capability, &bi->options, &s->controls, &refusal) ||
        !linux_load(bi, &s->guest, &refusal))
        hypervisor_fault("%s", refusal.line);

    cpu->pmu.global_ctrl = pmu_choose(bi->options.pmu, s->controls.value);
    cpu->ept_root = build_ept(bi, &s->capability);
    if (bi->options.apic_trap && !apic_trap_setup(cpu))
        needed(NULL);
    if (!cpuid_setup(cpu, s->controls.value))
        needed(NULL);
    msr_setup(cpu, s->controls.value);
    io_setup(cpu);
    exit_setup(cpu);
    allow_vmx();

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
