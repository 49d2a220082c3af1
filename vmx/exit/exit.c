/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exit dispatch: a table that maps each exit reason to its handler, and the shortest handlers. A
 * new exit reason needs a row here, its number in include/vmx.h, and a row in vmx/control.c for the
 * control that causes the exit.
 * SDM Vol. 3, "VMX Basic Exit Reasons", "Instructions That Cause VM Exits".
 */
#include "vmx/exit/exit.h"

#include "nmi/nmi.h"
#include "vmx/exit/report.h"
#include "vmx/root/fault.h"

static void exit_undefined(UNUSED struct cpu *cpu) { inject_ud(); }

/* A real INVD would discard the hypervisor's modified cache lines together with the guest's. */
static void exit_invd(struct cpu *cpu)
{
    wbinvd();
    skip_instruction(cpu);
}

/* The guest asked for state that CPUID hides, see cpuid_hidden_xss(). For the guest, the state's
 * bits in IA32_XSS are reserved. */
static void exit_xsaves(UNUSED struct cpu *cpu) { inject_gp(); }

/* A hardware task switch. 64-bit mode has none, and no 64-bit kernel uses one before it enters
 * 64-bit mode. */
static void exit_task_switch(struct cpu *cpu)
{
    const char *becomes = inject_gp_or_df(cpu);

    if (may_log_refusal(cpu))
        log_printf("pmuvisor: the guest tried a hardware task switch: %s\n", becomes);
}

static const exit_handler handlers[EXIT_REASON_COUNT] = {
    [EXIT_REASON_EXCEPTION_OR_NMI] = exit_nmi,
    [EXIT_REASON_TRIPLE_FAULT] = exit_triple_fault,
    [EXIT_REASON_INIT_SIGNAL] = exit_init,
    [EXIT_REASON_SIPI] = exit_sipi,
    [EXIT_REASON_NMI_WINDOW] = exit_nmi_window,
    [EXIT_REASON_TASK_SWITCH] = exit_task_switch,
    [EXIT_REASON_CPUID] = exit_cpuid,
    [EXIT_REASON_INVD] = exit_invd,
    [EXIT_REASON_RDPMC] = exit_rdpmc,
    [EXIT_REASON_VMCALL] = exit_vmcall,
    [EXIT_REASON_MWAIT] = exit_mwait,
    [EXIT_REASON_WBINVD] = exit_wbinvd,
    [EXIT_REASON_CR_ACCESS] = exit_cr_access,
    [EXIT_REASON_IO_INSTRUCTION] = exit_io,
    [EXIT_REASON_RDMSR] = exit_rdmsr,
    [EXIT_REASON_WRMSR] = exit_wrmsr,
    [EXIT_REASON_EPT_VIOLATION] = exit_ept_violation,
    [EXIT_REASON_MONITOR_TRAP_FLAG] = exit_monitor_trap,
    [EXIT_REASON_PREEMPTION_TIMER] = exit_tick,
    [EXIT_REASON_XSETBV] = exit_xsetbv,
    [EXIT_REASON_XSAVES] = exit_xsaves,
    [EXIT_REASON_XRSTORS] = exit_xsaves,
    /* VMX, SMX, SGX and SEAM instructions, and newer instructions that access MSRs. The guest's
     * CPUID shows none of them, so they raise #UD. */
    [EXIT_REASON_GETSEC] = exit_undefined,
    [EXIT_REASON_VMCLEAR] = exit_undefined,
    [EXIT_REASON_VMLAUNCH] = exit_undefined,
    [EXIT_REASON_VMPTRLD] = exit_undefined,
    [EXIT_REASON_VMPTRST] = exit_undefined,
    [EXIT_REASON_VMREAD] = exit_undefined,
    [EXIT_REASON_VMRESUME] = exit_undefined,
    [EXIT_REASON_VMWRITE] = exit_undefined,
    [EXIT_REASON_VMXOFF] = exit_undefined,
    [EXIT_REASON_VMXON] = exit_undefined,
    [EXIT_REASON_INVEPT] = exit_undefined,
    [EXIT_REASON_INVVPID] = exit_undefined,
    [EXIT_REASON_VMFUNC] = exit_undefined,
    [EXIT_REASON_ENCLS] = exit_undefined,
    [EXIT_REASON_SEAMCALL] = exit_undefined,
    [EXIT_REASON_TDCALL] = exit_undefined,
    [EXIT_REASON_URDMSR] = exit_undefined,
    [EXIT_REASON_UWRMSR] = exit_undefined,
    [EXIT_REASON_RDMSR_IMMEDIATE] = exit_undefined,
    [EXIT_REASON_WRMSRNS_IMMEDIATE] = exit_undefined,
};

/* After an instruction at the end of a 32-bit segment, EIP should wrap to 0. But skip_bytes()
 * leaves a carry in RIP, and the entry refuses such a RIP (SDM Vol. 3, "Checks on Guest RIP,
 * RFLAGS, and SSP"). RIP is corrected after the entry has failed, so that exits from 64-bit mode
 * pay nothing. A failed entry has changed nothing. */
static bool wrap_eip(uint32_t reason)
{
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);

    if (!(reason & EXIT_REASON_ENTRY_FAILURE) || rip <= UINT32_MAX || guest_in_64_bit_mode())
        return false;
    vmcs_write_natural(VMCS_GUEST_RIP, (uint32_t)rip);
    return true;
}

/* While STI or MOV SS blocks, or in HLT, an entry requires the bit BS of the pending debug
 * exceptions to be 1 if a single step is due, and 0 otherwise (SDM Vol. 3, "Checks on Guest
 * Non-Register State"). While MOV SS blocks, an exit between two instructions may save the wrong
 * value of BS ("Saving Non-Register State"). BS is corrected here, after the entry has failed, so
 * that no other exit pays for it. After this write, the entry cannot fail because of BS again. */
static bool correct_single_step(uint32_t reason)
{
    uint64_t pending = vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS);
    bool halted = vmcs_read_32(VMCS_GUEST_ACTIVITY_STATE) == ACTIVITY_HLT;
    bool blocked = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE) & BLOCKING_BY_STI_OR_MOV_SS;

    if (reason != (EXIT_REASON_ENTRY_FAILURE | EXIT_REASON_ENTRY_FAILURE_GUEST_STATE) ||
        (!halted && !blocked) || single_step_due() == ((pending & PENDING_DEBUG_BS) != 0))
        return false;
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, pending ^ PENDING_DEBUG_BS);
    return true;
}

void exit_unexpected(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (wrap_eip(reason) || correct_single_step(reason))
        return;
    report_guest(cpu);
    /* A machine check during the entry (SDM Vol. 3, "Machine-Check Events During VM Entry") may
     * make the entry fail with this reason. Otherwise the machine check arrives in root mode or in
     * the guest, like any other. */
    if ((reason & EXIT_REASON_BASIC) == EXIT_REASON_ENTRY_FAILURE_MACHINE_CHECK)
        report_machine_check();
    hypervisor_fault("VM exit with reason 0x%x (%s) has no handler, qualification 0x%lx, guest RIP "
                     "0x%lx",
                     reason, exit_reason_name(reason & EXIT_REASON_BASIC),
                     vmcs_read_natural(VMCS_EXIT_QUALIFICATION), vmcs_read_natural(VMCS_GUEST_RIP));
}

void exit_setup(struct cpu *cpu)
{
    for (unsigned reason = 0; reason < EXIT_REASON_COUNT; reason++)
        cpu->handlers[reason] = handlers[reason] != NULL ? handlers[reason] : exit_unexpected;
    cpu->handlers[EXIT_REASON_COUNT] = exit_unexpected;
}

void handle_nmi_work(struct cpu *cpu)
{
    if (cpu->blocking & cpu->nmi.unblock_mask) {
        /* An NMI that waited for the guest's IRET arrives at the instruction after nmi_unblock()'s
         * IRET, whether the NMI is for the guest or for the host. The entry blocks NMIs again. */
        cpu->nmi.unblocked++;
        nmi_unblock();
    }
    if (cpu->nmi.notes & cpu->nmi.notes_mask)
        nmi_process_notes(cpu);
}

/* This is a separate function, so that an exit without NMI work saves no register. */
static __attribute__((noinline)) void vmx_exit_with_nmi_work(struct cpu *cpu)
{
    handle_nmi_work(cpu);
    dispatch_exit(cpu);
}

/* The path of every exit: entry.asm, vmx_exit(), the handler in the table, entry.asm.
 * nmi_has_exit_work() makes a single test. It returns true if NMIs must be unblocked in root mode,
 * or if a note for exits is set. */
void vmx_exit(struct cpu *cpu)
{
    cpu->blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    if (__builtin_expect(nmi_has_exit_work(cpu), 0))
        vmx_exit_with_nmi_work(cpu);
    else
        dispatch_exit(cpu);
}

void vmx_exit_timed(struct cpu *cpu)
{
    uint64_t start = rdtsc();

    vmx_exit(cpu);
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);
    if (reason < EXIT_REASON_COUNT) /* not an entry that failed */
        cpu->exit_cycles[reason] += rdtsc() - start;
}

void vmx_report_entry_failure(struct cpu *cpu)
{
    report_guest(cpu);
    hypervisor_fault("VM entry failed, VM-instruction error %u",
                     vmcs_read_32(VMCS_INSTRUCTION_ERROR));
}
