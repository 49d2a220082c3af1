/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The control-register bits that the guest does not own, and XSETBV. Everything else in CR0, CR3,
 * CR4 and CR8 is the guest's and does not exit.
 * SDM Vol. 3, "Guest/Host Masks and Read Shadows for CR0 and CR4"; Vol. 2, "XSETBV".
 */
#include "vmx/exit/exit.h"

#include "vmx/root/fault.h"

#define XCR0 0

/* Outside 64-bit mode the operand has 32 bits, and the register may have more. */
uint64_t cr_operand(const struct cpu *cpu, uint64_t qualification)
{
    uint64_t number = qualification >> CR_ACCESS_REGISTER_SHIFT & CR_ACCESS_REGISTER_MASK;
    uint64_t value = number == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[number];
    bool mode_64 = vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA &&
                   vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS) & ACCESS_LONG;

    return mode_64 ? value : (uint32_t)value;
}

static void set_tracked_cr4(struct cpu *cpu, uint64_t value)
{
    uint64_t guest = vmcs_read_natural(VMCS_GUEST_CR4) & ~CR4_TRACKED;

    cpu->guest_cr4_tracked = value & CR4_TRACKED;
    vmcs_write_natural(VMCS_GUEST_CR4, guest | cpu->guest_cr4_tracked);
    vmcs_write_natural(VMCS_CR4_READ_SHADOW, cpu->guest_cr4_tracked);
    cpuid_follow_cr4(cpu);
}

/* Reserved bits of the processor, and bits of features that CPUID hides (cpuid.c), raise #GP before
 * anything changes. What the processor refuses beyond that, when the guest executes the MOV again,
 * are combinations (PAE, PCIDE, LA57 or CET against the mode): the tracked bits stay changed then.
 */
static void guest_writes_cr4(struct cpu *cpu, uint64_t value)
{
    if (value & (cpu->cr4_refused | ~rdmsr(IA32_VMX_CR4_FIXED1))) {
        inject_gp();
        return;
    }
    uint64_t shown = vmcs_read_natural(VMCS_GUEST_CR4) & ~(cpu->cr4_refused | CR4_TRACKED);
    shown |= cpu->guest_cr4_tracked;
    set_tracked_cr4(cpu, value);
    /* Only tracked bits change: done. Else the guest executes the same MOV again: the tracked bits
     * now agree with the shadow, it does not exit, and the processor does, or refuses, the rest. */
    if (((value ^ shown) & ~CR4_TRACKED) == 0)
        skip_instruction(cpu);
}

void exit_cr_access(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t number = qualification & CR_ACCESS_NUMBER;
    uint64_t type = qualification >> CR_ACCESS_TYPE_SHIFT & CR_ACCESS_TYPE_MASK;

    /* CLTS and LMSW reach none of the owned bits, and reads never exit. */
    if (type != CR_ACCESS_MOV_TO || (number != 0 && number != 4))
        hypervisor_fault("control-register access 0x%lx exited, which no control asks for",
                         qualification);
    uint64_t value = cr_operand(cpu, qualification);
    if (number == 4)
        guest_writes_cr4(cpu, value);
    else
        /* CR0.NE stays 1 in VMX operation; the guest sees what it wrote. With the shadow changed,
         * the same MOV does not exit, and the processor does, or refuses, the rest of it. */
        vmcs_write_natural(VMCS_CR0_READ_SHADOW, value);
}

void exit_xsetbv(struct cpu *cpu)
{
    uint32_t index = (uint32_t)cpu->gpr[GPR_RCX];
    uint64_t value = (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32;

    /* The processor's own check of the value is the right one: root mode uses no XSAVE state, so
     * the guest's XCR0 simply stays in the register. Not that of the privilege level, which is root
     * mode's here: hardware makes it before the exit, the emulator does not. */
    if (index == XCR0 && !(value & XCR0_APX) && guest_cpl() == 0 && xsetbv_safe(index, value))
        skip_instruction(cpu);
    else
        inject_gp();
}
