/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The part of the start that each processor runs for itself: descriptor tables, VMX operation,
 * VMCS. SDM Vol. 3, "Enabling and Entering VMX Operation".
 */
#include "vmx/start/start.h"

#include "experiment.h"
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/apic_trap.h"
#include "vmx/exit/exit.h"
#include "vmx/mitigations.h"
#include "vmx/root/fault.h"

/* Allocates a stack with an unmapped page below it. Returns the top. */
static uint64_t new_stack(uint64_t root)
{
    uint64_t base = (uint64_t)page_alloc(STACK_PAGES + 1);

    host_paging_unmap(root, base);
    return base + (STACK_PAGES + 1) * PAGE_SIZE;
}

struct start *processor_new(const struct boot_info *bi, uint32_t apic_id, uint64_t host_cr3)
{
    struct start *s = page_alloc((sizeof(struct start) + PAGE_SIZE - 1) / PAGE_SIZE);
    struct cpu *cpu = page_alloc((experiments_place_state() + PAGE_SIZE - 1) / PAGE_SIZE);

    *cpu = (struct cpu){
        .self = cpu,
        .boot = bi,
        .apic_id = apic_id,
        .host_cr3 = host_cr3,
        .vmxon_region = page_alloc(1),
        .vmcs = page_alloc(1),
        .msr_bitmap = page_alloc(1),
        .io_bitmaps = page_alloc(2),
        .root_stack = new_stack(host_cr3),
        .fault_stack = new_stack(host_cr3),
        .nmi_stack = new_stack(host_cr3),
    };
    s->cpu = cpu;
    return s;
}

/* Stops an Intel PT trace that firmware left running. Root mode must not be traced, and the trace's
 * buffer now belongs to the guest. */
static void stop_pt_trace(void)
{
    uint64_t control;

    if (cpuid_extended_features().ebx & CPUID_7_EBX_PT && rdmsr_safe(IA32_RTIT_CTL, &control) &&
        control & RTIT_CTL_TRACE_EN)
        wrmsr_safe(IA32_RTIT_CTL, control & ~RTIT_CTL_TRACE_EN);
}

bool processor_choose_controls(struct start *s)
{
    s->tables = descriptors_load(s->cpu, nmi_entry);
    stop_pt_trace();
    if (!vmx_is_available(&s->refusal))
        return false;
    vmx_capability_read(&s->capability);
    return vmx_controls_choose(&s->capability, &s->cpu->boot->options, &s->controls, &s->refusal);
}

void processor_set_up_exits(struct start *s)
{
    struct cpu *cpu = s->cpu;

    cpu->pmu.global_ctrl = pmu_choose_switch(cpu->boot->options.pmu, s->controls.value);
    if (cpu->boot->options.apic_trap)
        apic_trap_setup(cpu);
    cpuid_setup(cpu, s->controls.value);
    msr_setup(cpu, s->controls.value);
    io_setup(cpu);
    mitigations_setup(cpu);
    hypercall_setup(cpu);
    exit_setup(cpu);
}

static void allow_vmx(void)
{
    uint64_t feature_control = rdmsr(IA32_FEATURE_CONTROL);

    if (!(feature_control & FEATURE_CONTROL_LOCK))
        wrmsr(IA32_FEATURE_CONTROL,
              feature_control | FEATURE_CONTROL_LOCK | FEATURE_CONTROL_VMX_OUTSIDE_SMX);
}

bool processor_vmxon(struct start *s)
{
    const struct vmx_capability *c = &s->capability;
    uint64_t region = (uint64_t)s->cpu->vmxon_region;
    bool failed;

    allow_vmx();
    *(uint32_t *)region = (uint32_t)(c->basic & VMX_BASIC_REVISION);
    write_cr0((read_cr0() | CR0_NE | CR0_WP | c->cr0_fixed0) & c->cr0_fixed1 &
              ~(uint64_t)(CR0_TS | CR0_EM));
    write_cr4(CR4_PAE | CR4_MCE | c->cr4_fixed0 |
              (cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE ? CR4_OSXSAVE : 0));
    __asm__ volatile("vmxon %1" : "=@ccbe"(failed) : "m"(region) : "memory");
    s->cpu->in_vmx = !failed;
    return !failed;
}

static void load_vmcs(const struct cpu *cpu, const struct vmx_capability *c)
{
    uint64_t vmcs = (uint64_t)cpu->vmcs;
    bool not_cleared, not_loaded;

    *(uint32_t *)vmcs = (uint32_t)(c->basic & VMX_BASIC_REVISION);
    __asm__ volatile("vmclear %1" : "=@ccbe"(not_cleared) : "m"(vmcs) : "memory");
    __asm__ volatile("vmptrld %1" : "=@ccbe"(not_loaded) : "m"(vmcs) : "memory");
    if (not_cleared || not_loaded)
        hypervisor_fault("%s of 0x%lx failed", not_cleared ? "VMCLEAR" : "VMPTRLD", vmcs);
}

void processor_enter_vmx(struct start *s, bool first)
{
    bool was_on = read_cr4() & CR4_VMXE;

    if (!processor_vmxon(s))
        hypervisor_fault("VMXON failed (IA32_FEATURE_CONTROL 0x%lx, CR0 0x%lx, CR4 0x%lx)%s",
                         rdmsr(IA32_FEATURE_CONTROL), read_cr0(), read_cr4(),
                         was_on ? ": firmware seems to use VMX itself" : "");
    load_vmcs(s->cpu, &s->capability);
    flush_guest_translations(); /* an earlier user of VMX may have left some */
    /* Do not call this earlier: until here, the emulator shows every MSR as present. */
    pmu_context_setup(s->cpu);
    vmcs_setup(s->cpu, &s->capability, &s->controls, &s->tables, first ? &s->guest : NULL);
}
