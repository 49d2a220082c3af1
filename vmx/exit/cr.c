/* SPDX-License-Identifier: BSD-2-Clause
 *
 * XSETBV, and the bits of the control registers that the guest does not own. The guest owns all
 * other bits of CR0, CR3, CR4 and CR8, and no access to these other bits exits. SDM Vol. 3,
 * "Guest/Host Masks and Read Shadows for CR0 and CR4"; Vol. 2, "XSETBV".
 */
#include "vmx/exit/exit.h"

#include "vmx/root/fault.h"

#define XCR0 0

/* Outside 64-bit mode the operand has 32 bits, but the saved register may have more bits set. */
uint64_t cr_operand(const struct cpu *cpu, uint64_t qualification)
{
    uint64_t number = qualification >> CR_ACCESS_REGISTER_SHIFT & CR_ACCESS_REGISTER_MASK;
    uint64_t value = number == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[number];

    return guest_in_64_bit_mode() ? value : (uint32_t)value;
}

/* The monitor trap exits after the guest's next instruction, or after the delivery of an event that
 * came instead. Only an INIT can exit before that. When the monitor trap exits, a MOV to CR0 or CR4
 * has been done completely or not at all. SDM Vol. 3, "Monitor Trap Flag". */
void exit_monitor_trap(struct cpu *cpu)
{
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG, false);
    cpu->sipi.taken = false;
    if ((vmcs_read_natural(VMCS_GUEST_CR0) ^ cpu->cr.cr0_asked) & ~(CR0_IGNORED | CR0_NE))
        vmcs_write_natural(VMCS_CR0_READ_SHADOW, cpu->cr.cr0_shadow);
    cpuid_update_for_cr4(cpu);
}

/* Makes the guest execute the MOV again without an exit, so that the processor does all of the MOV
 * or refuses all of it. Then the monitor trap exits.
 * CR4: if the MOV sets a bit that CPUID hides, the guest gets #GP here, before anything changes.
 * Otherwise the guest owns the tracked bits until the monitor trap, so the MOV does not exit again.
 * CR0: the read shadow gets the MOV's value, so the MOV does not exit again. NE stays 1 in VMX
 * operation, but the guest reads the value that it wrote. */
void exit_cr_access(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t number = qualification & CR_ACCESS_NUMBER;
    uint64_t type = qualification >> CR_ACCESS_TYPE_SHIFT & CR_ACCESS_TYPE_MASK;

    /* CLTS and LMSW cannot change the bits that the hypervisor owns, and reads never exit. */
    if (type != CR_ACCESS_MOV_TO || (number != 0 && number != 4))
        hypervisor_fault("control-register access 0x%lx exited, which no control asks for",
                         qualification);
    uint64_t value = cr_operand(cpu, qualification);
    if (number == 4 && value & cpu->cr.cr4_refused) {
        inject_gp();
        return;
    }
    cpu->cr.cr0_shadow = vmcs_read_natural(VMCS_CR0_READ_SHADOW);
    if (number == 4) {
        vmcs_write_natural(VMCS_CR4_GUEST_HOST_MASK, cpu->cr.cr4_refused);
    } else {
        cpu->cr.cr0_asked = value;
        vmcs_write_natural(VMCS_CR0_READ_SHADOW, value);
    }
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG, true);
    reexecute_instruction();
}

void exit_xsetbv(struct cpu *cpu)
{
    uint32_t index = (uint32_t)cpu->gpr[GPR_RCX];
    uint64_t value = (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32;

    /* xsetbv_safe() lets the processor check the value. That check is right, because root mode uses
     * no XSAVE state, so XCR0 always holds the guest's value. The processor cannot check the
     * privilege level for the guest, because here it would check root mode's level. Hardware checks
     * the guest's level before the exit, but the emulator does not. */
    if (index == XCR0 && !(value & XCR0_APX) && guest_cpl() == 0 && xsetbv_safe(index, value))
        skip_instruction(cpu);
    else
        inject_gp();
}
