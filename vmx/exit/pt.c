/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exits that concern the guest's Intel PT. Each exit clears IA32_RTIT_CTL, and each entry loads the
 * guest's value from the VMCS, so root mode is never traced. SDM Vol. 3, "IA32_RTIT_CTL MSR",
 * "IA32_RTIT_STATUS MSR"; "Virtualization of Guest Output Packet Streams".
 */
#include "vmx/exit/exit.h"

#include "vmx/root/fault.h"

bool pt_is_exposed(void) { return vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_LOAD_RTIT_CTL; }

/* While the guest has TraceEn set and keeps it set, no Intel PT register may change. A new value of
 * IA32_RTIT_CTL goes to the register once, without TraceEn, so that the processor refuses bits that
 * do not exist. */
bool pt_access_register(UNUSED struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    if (!pt_is_exposed())
        return false;
    uint64_t control = vmcs_read_64(VMCS_GUEST_IA32_RTIT_CTL);
    if (!write) {
        bool there = rdmsr_safe(index, value);
        *value = index == IA32_RTIT_CTL ? control : *value;
        return there;
    }
    if (index != IA32_RTIT_CTL)
        return !(control & RTIT_CTL_TRACE_EN) && wrmsr_safe(index, *value);
    if (control & *value & RTIT_CTL_TRACE_EN)
        return control == *value;
    if (!wrmsr_safe(IA32_RTIT_CTL, *value & ~RTIT_CTL_TRACE_EN))
        return false;
    wrmsr(IA32_RTIT_CTL, 0);
    vmcs_write_64(VMCS_GUEST_IA32_RTIT_CTL, *value);
    return true;
}

/* An EPT violation without a linear address comes from an entry that translated the addresses of
 * the trace's output in advance. Once the trace's error is set, the processor writes no packets,
 * but each entry still translates these addresses. So if the error is already set, clear
 * TraceEn. */
bool pt_report_output_error(struct cpu *cpu, uint64_t qualification)
{
    bool trace = pt_is_exposed() && !(qualification & EPT_VIOLATION_LINEAR_VALID);
    uint64_t control = trace ? vmcs_read_64(VMCS_GUEST_IA32_RTIT_CTL) : 0;

    if (!(control & RTIT_CTL_TRACE_EN))
        return false;
    uint64_t status = rdmsr(IA32_RTIT_STATUS);
    if (status & RTIT_STATUS_ERROR)
        vmcs_write_64(VMCS_GUEST_IA32_RTIT_CTL, control & ~RTIT_CTL_TRACE_EN);
    wrmsr(IA32_RTIT_STATUS, status | RTIT_STATUS_ERROR);
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);
    if (vectoring & INTERRUPTION_VALID)
        deliver_event_again(cpu, vectoring);
    execute_next_instruction();
    return true;
}
