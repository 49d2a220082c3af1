// SPDX-License-Identifier: BSD-2-Clause
//
// VMX capabilities. The names are the SDM's control names in lower case with underscores.
#include "bochs.h"
#include "cpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cpuid.h"
#include "knobs.h"
#include "msr_index.h"
#include "processor.h"
#include "vmx_caps.h"

namespace {

enum Word { PIN, PRIMARY, SECONDARY, EXIT, ENTRY, EXIT_SECONDARY, TERTIARY, EPT_VPID, MISC };

struct Control {
    const char *name;
    Word word;
    unsigned bit;
    Bit32u extension;  // of Bochs, where hiding the control hides more: fields, other controls
};

// What Bochs takes for impossible without EPT.
constexpr Bit32u EPT_AND_DEPENDENTS = BX_VMX_EPT | BX_VMX_UNRESTRICTED_GUEST | BX_VMX_PML |
                                      BX_VMX_EPTP_SWITCHING | BX_VMX_EPT_ACCESS_DIRTY |
                                      BX_VMX_EPT_EXCEPTION | BX_VMX_MBE_CONTROL | BX_VMX_SPP;

constexpr Control controls[] = {
    {"nmi_exiting", PIN, 3, 0},
    {"virtual_nmis", PIN, 5, BX_VMX_VIRTUAL_NMI},
    {"activate_vmx_preemption_timer", PIN, 6, BX_VMX_PREEMPTION_TIMER},
    {"process_posted_interrupts", PIN, 7, BX_VMX_POSTED_INTERRUPTS},
    {"use_tsc_offsetting", PRIMARY, 3, 0},
    {"hlt_exiting", PRIMARY, 7, 0},
    {"rdpmc_exiting", PRIMARY, 11, 0},
    {"rdtsc_exiting", PRIMARY, 12, 0},
    {"use_tpr_shadow", PRIMARY, 21, BX_VMX_TPR_SHADOW},
    {"nmi_window_exiting", PRIMARY, 22, 0},
    {"use_io_bitmaps", PRIMARY, 25, 0},
    {"monitor_trap_flag", PRIMARY, 27, BX_VMX_MONITOR_TRAP_FLAG},
    {"use_msr_bitmaps", PRIMARY, 28, 0},
    {"pause_exiting", PRIMARY, 30, 0},
    {"activate_secondary_controls", PRIMARY, 31, 0},
    {"virtualize_apic_accesses", SECONDARY, 0, BX_VMX_APIC_VIRTUALIZATION},
    {"enable_ept", SECONDARY, 1, EPT_AND_DEPENDENTS},
    {"enable_rdtscp", SECONDARY, 3, 0},
    {"virtualize_x2apic_mode", SECONDARY, 4, BX_VMX_X2APIC_VIRTUALIZATION},
    {"enable_vpid", SECONDARY, 5, BX_VMX_VPID},
    {"wbinvd_exiting", SECONDARY, 6, 0},
    {"unrestricted_guest", SECONDARY, 7, BX_VMX_UNRESTRICTED_GUEST},
    {"pause_loop_exiting", SECONDARY, 10, BX_VMX_PAUSE_LOOP_EXITING},
    {"enable_invpcid", SECONDARY, 12, 0},
    {"enable_pml", SECONDARY, 17, BX_VMX_PML},
    {"conceal_vmx_from_pt", SECONDARY, 19, 0},
    {"enable_xsaves", SECONDARY, 20, 0},
    {"pt_uses_guest_physical_addresses", SECONDARY, 24, 0},
    {"use_tsc_scaling", SECONDARY, 25, BX_VMX_TSC_SCALING},
    {"pebs_uses_guest_physical_addresses", TERTIARY, 12, 0},
    {"prematurely_busy_shadow_stack", EXIT_SECONDARY, 3, 0},
    {"load_global_ctrl_at_exit", EXIT, 12, 0},
    {"acknowledge_interrupt_on_exit", EXIT, 15, 0},
    {"save_pat", EXIT, 18, 0},
    {"load_pat_at_exit", EXIT, 19, 0},
    {"save_efer", EXIT, 20, 0},
    {"load_efer_at_exit", EXIT, 21, 0},
    {"save_vmx_preemption_timer", EXIT, 22, 0},
    {"conceal_vm_exits_from_pt", EXIT, 24, 0},
    {"clear_rtit_ctl", EXIT, 25, 0},
    {"clear_lbr_ctl", EXIT, 26, 0},
    {"load_cet_state_at_exit", EXIT, 28, 0},
    {"save_global_ctrl", EXIT, 30, 0},
    {"load_global_ctrl_at_entry", ENTRY, 13, 0},
    {"load_pat_at_entry", ENTRY, 14, 0},
    {"load_efer_at_entry", ENTRY, 15, 0},
    {"conceal_vm_entries_from_pt", ENTRY, 17, 0},
    {"load_rtit_ctl", ENTRY, 18, 0},
    {"load_cet_state", ENTRY, 20, 0},
    {"load_lbr_ctl", ENTRY, 21, 0},
    {"ept_walk_length_4", EPT_VPID, 6, 0},
    {"ept_write_back", EPT_VPID, 14, 0},
    {"ept_2m_pages", EPT_VPID, 16, 0},
    {"ept_1g_pages", EPT_VPID, 17, 0},
    {"ept_accessed_dirty", EPT_VPID, 21, BX_VMX_EPT_ACCESS_DIRTY},
    {"wait_for_sipi", MISC, VMX_MISC_WAIT_FOR_SIPI, 0},
    {"pt_in_vmx", MISC, VMX_MISC_PT_IN_VMX, 0},
};

// What an i7-7800X offers (allowed-1 halves of its capability MSRs), as Bochs' model of it
// documents.
constexpr const char *SKYLAKE_X = "corei7_skylake_x";
constexpr Bit32u SKYLAKE_X_PIN = 0x000000ff;
constexpr Bit32u SKYLAKE_X_PRIMARY = 0xfff9fffe;
constexpr Bit32u SKYLAKE_X_SECONDARY = 0x025d3fff;
constexpr Bit32u SKYLAKE_X_EXIT = 0x01ffffff;
constexpr Bit32u SKYLAKE_X_ENTRY = 0x0003ffff;
constexpr Bit64u SKYLAKE_X_EPT_VPID = BX_CONST64(0x0f0106734141);

// Bits of IA32_VMX_MISC, which Bochs has as a constant, as the processor shows them.
Bit64u misc_shown = bit(VMX_MISC_WAIT_FOR_SIPI);

constexpr Bit64u FEATURE_CONTROL_LOCK = 1u << 0;
constexpr Bit64u FEATURE_CONTROL_VMX_OUTSIDE_SMX = 1u << 2;

const Control &find_control(const std::string &name)
{
    for (const Control &control : controls)
        if (name == control.name)
            return control;
    std::fprintf(stderr, "testbed: knob hide_control or show_control: found '%s', wanted one of",
                 name.c_str());
    for (const Control &control : controls)
        std::fprintf(stderr, " %s", control.name);
    std::fprintf(stderr, "\n");
    std::exit(EXIT_FAILURE);
}

void set_bit(VMX_CAP &cap, const Control &control, bool on)
{
    Bit32u *words[] = {
        &cap.vmx_pin_vmexec_ctrl_supported_bits, &cap.vmx_proc_vmexec_ctrl_supported_bits,
        &cap.vmx_vmexec_ctrl2_supported_bits,    &cap.vmx_vmexit_ctrl1_supported_bits,
        &cap.vmx_vmentry_ctrl_supported_bits,    &cap.vmx_vmexit_ctrl2_supported_bits};

    if (control.word == MISC) {
        misc_shown = (misc_shown & ~bit(control.bit)) | (on ? bit(control.bit) : 0);
        return;
    }
    if (control.word == EPT_VPID || control.word == TERTIARY) {
        Bit64u &word = control.word == EPT_VPID ? cap.vmx_ept_vpid_cap_supported_bits
                                                : cap.vmx_vmexec_ctrl3_supported_bits;
        Bit64u mask = Bit64u{1} << control.bit;
        word = (word & ~mask) | (on ? mask : 0);
        return;
    }
    Bit32u mask = Bit32u{1} << control.bit;
    *words[control.word] = (*words[control.word] & ~mask) | (on ? mask : 0);
}

// Where Bochs lays out all fields of a kind, four bytes for each encoding, and then removes this
// one. Only a 64-bit field has an encoding of its upper half.
void map_field(VMCS_Mapping &map, Bit32u first, Bit32u of_its_kind, bool there)
{
    unsigned offset = map.vmcs_field_offset(of_its_kind);
    Bit32u last = VMCS_FIELD_WIDTH(first) == VMCS_FIELD_WIDTH_64BIT ? first + 1 : first;

    for (Bit32u field = first; field <= last; field++) {
        if (there)
            map.set_mapping(field, offset + 4 * (field - of_its_kind));
        else
            map.clear_mapping(field);
    }
}

void hide_what_skylake_lacks(VMX_CAP &cap)
{
    cap.vmx_pin_vmexec_ctrl_supported_bits &= SKYLAKE_X_PIN;
    cap.vmx_proc_vmexec_ctrl_supported_bits &= SKYLAKE_X_PRIMARY;
    cap.vmx_vmexec_ctrl2_supported_bits &= SKYLAKE_X_SECONDARY;
    cap.vmx_vmexit_ctrl1_supported_bits &= SKYLAKE_X_EXIT;
    cap.vmx_vmentry_ctrl_supported_bits &= SKYLAKE_X_ENTRY;
    cap.vmx_ept_vpid_cap_supported_bits &= SKYLAKE_X_EPT_VPID;
}

}  // namespace

void vmx_caps_apply(unsigned number)
{
    BX_CPU_C *cpu = BX_CPU(number);
    VMX_CAP &cap = cpu->vmx_cap;

    // Without VMX in the model there is nothing to offer.
    if (!cpu->is_cpu_extension_supported(BX_ISA_VMX))
        return;
    for (const std::string &name : knobs().hide_controls)
        cpu->vmx_extensions_bitmask &= ~find_control(name).extension;
    cap = VMX_CAP();
    cpu->init_vmx_capabilities();
    // A processor has them whether or not CPUID shows MONITOR and MWAIT, and KVM wants them.
    cap.vmx_proc_vmexec_ctrl_supported_bits |= VMX_VM_EXEC_CTRL1_MWAIT_VMEXIT |
                                               VMX_VM_EXEC_CTRL1_MONITOR_VMEXIT;
    if (std::strcmp(cpu->cpuid->get_name(), SKYLAKE_X) == 0)
        hide_what_skylake_lacks(cap);
    if (processor(number).own.arch_lbr) {
        cap.vmx_vmexit_ctrl1_supported_bits |= VMX_VMEXIT_CTRL1_CLEAR_IA32_LBR_CTRL;
        cap.vmx_vmentry_ctrl_supported_bits |= VMX_VMENTRY_CTRL1_LOAD_GUEST_LBR_CTRL;
    }
    // All that an Ice Lake-SP has of PT: SDM Vol. 3, "Intel Processor Trace", section 5.1, and what
    // came later.
    if (knobs().pt != PT_OFF) {
        for (const char *name :
             {"conceal_vmx_from_pt", "pt_uses_guest_physical_addresses", "conceal_vm_exits_from_pt",
              "clear_rtit_ctl", "conceal_vm_entries_from_pt", "load_rtit_ctl", "pt_in_vmx"})
            set_bit(cap, find_control(name), true);
    }
    for (const std::string &name : knobs().show_controls)
        set_bit(cap, find_control(name), true);
    for (const std::string &name : knobs().hide_controls)
        set_bit(cap, find_control(name), false);
    if (cap.vmx_vmexec_ctrl3_supported_bits != 0)
        cap.vmx_proc_vmexec_ctrl_supported_bits |= VMX_VM_EXEC_CTRL1_TERTIARY_CONTROLS;
    if (cap.vmx_vmexit_ctrl2_supported_bits == 0)
        cap.vmx_vmexit_ctrl1_supported_bits &= ~VMX_VMEXIT_CTRL1_ACTIVATE_SECONDARY_CTRLS;
    // The VM functions and the secondary word exist only where the control before them does.
    if (!(cap.vmx_proc_vmexec_ctrl_supported_bits & VMX_VM_EXEC_CTRL1_SECONDARY_CONTROLS)) {
        cap.vmx_vmexec_ctrl2_supported_bits = 0;
        cap.vmx_ept_vpid_cap_supported_bits = 0;
    }
    if (!(cap.vmx_vmentry_ctrl_supported_bits & VMX_VMENTRY_CTRL1_LOAD_PERF_GLOBAL_CTRL_MSR))
        cpu->vmcs_map->clear_mapping(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL);
    if (!(cap.vmx_vmexit_ctrl1_supported_bits & VMX_VMEXIT_CTRL1_LOAD_PERF_GLOBAL_CTRL_MSR))
        cpu->vmcs_map->clear_mapping(VMCS_64BIT_HOST_IA32_PERF_GLOBAL_CTRL);
    map_field(*cpu->vmcs_map, VMX_GUEST_IA32_LBR_CTL, VMCS_64BIT_GUEST_IA32_DEBUGCTL,
              cap.vmx_vmentry_ctrl_supported_bits & VMX_VMENTRY_CTRL1_LOAD_GUEST_LBR_CTRL);
    // SDM Vol. 3, "Guest Register State": where there is either of the two controls.
    map_field(*cpu->vmcs_map, VMCS_64BIT_GUEST_IA32_RTIT_CTL, VMCS_64BIT_GUEST_IA32_DEBUGCTL,
              (cap.vmx_vmentry_ctrl_supported_bits & VMX_VMENTRY_CTRL1_LOAD_GUEST_RTIT_CTRL) ||
                  (cap.vmx_vmexit_ctrl1_supported_bits & VMX_VMEXIT_CTRL1_CLEAR_IA32_RTIT_CTRL));
    map_field(*cpu->vmcs_map, VMCS_64BIT_CONTROL_TERTIARY_VMEXEC_CONTROLS,
              VMCS_64BIT_CONTROL_IO_BITMAP_A, cap.vmx_vmexec_ctrl3_supported_bits != 0);
    map_field(*cpu->vmcs_map, VMCS_64BIT_CONTROL_SECONDARY_VMEXIT_CONTROLS,
              VMCS_64BIT_CONTROL_IO_BITMAP_A, cap.vmx_vmexit_ctrl2_supported_bits != 0);
    // Bochs takes these fields for those of a processor with CET. Their controls bring them, too.
    if (cap.vmx_vmentry_ctrl_supported_bits & VMX_VMENTRY_CTRL1_LOAD_GUEST_CET_STATE)
        for (Bit32u field :
             {VMCS_GUEST_IA32_S_CET, VMCS_GUEST_SSP, VMCS_GUEST_INTERRUPT_SSP_TABLE_ADDR})
            map_field(*cpu->vmcs_map, field, VMCS_GUEST_CR0, true);
    if (cap.vmx_vmexit_ctrl1_supported_bits & VMX_VMEXIT_CTRL1_LOAD_HOST_CET_STATE)
        for (Bit32u field :
             {VMCS_HOST_IA32_S_CET, VMCS_HOST_SSP, VMCS_HOST_INTERRUPT_SSP_TABLE_ADDR})
            map_field(*cpu->vmcs_map, field, VMCS_HOST_CR0, true);
    // Bochs removes the fields that do not exist from the first processor's map alone.
    if (number != 0)
        *cpu->vmcs_map = *BX_CPU(0)->vmcs_map;
}

bool vmx_caps_wait_for_sipi() { return misc_shown & bit(VMX_MISC_WAIT_FOR_SIPI); }

bool vmx_caps_pt_in_vmx() { return misc_shown & bit(VMX_MISC_PT_IN_VMX); }

uint64_t vmx_caps_misc(uint64_t misc)
{
    return (misc & ~(bit(VMX_MISC_WAIT_FOR_SIPI) | bit(VMX_MISC_PT_IN_VMX))) | misc_shown;
}

void vmx_caps_reset(unsigned number)
{
    BX_CPU_C *cpu = BX_CPU(number);

    if (!cpu->is_cpu_extension_supported(BX_ISA_VMX))
        return;
    if (knobs().feature_control == FEATURE_CONTROL_LOCKED_OFF)
        cpu->msr.ia32_feature_ctrl = FEATURE_CONTROL_LOCK;
    if (knobs().feature_control == FEATURE_CONTROL_LOCKED_ON)
        cpu->msr.ia32_feature_ctrl = FEATURE_CONTROL_LOCK | FEATURE_CONTROL_VMX_OUTSIDE_SMX;
}
