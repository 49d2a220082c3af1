/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a VM entry that injects an event does to pending debug exceptions, and what a VM
 * exit from the delivery of one saves (testbed/patches/16). SDM Vol. 3, "Delivery of Pending Debug
 * Exceptions after VM Entry", "Saving Non-Register State", "VM-Entry Controls for Event Injection".
 */
#include "emulator_vmx.h"

#define TYPE_HARDWARE (UINT64_C(3) << 8)
#define TYPE_SOFTWARE (UINT64_C(4) << 8)
#define INT_N_LENGTH 2

static uint64_t where;

static void job_nothing(void) {}

/* Executes MOV SS at the watchpoint, then INT n. */
static void job_software_interrupt(void)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"
                     "mov %1, %%ss\n"
                     "1:\tint %2"
                     : "=m"(where)
                     : "m"(watched), "i"(VECTOR_SOFTWARE)
                     : "rax", "memory");
}

/* Injects the event as if an instruction of two bytes, which ends where the guest is, had raised
 * it. Each handler returns to where the guest is. */
static void inject(uint64_t type_vector)
{
    events_clear();
    where = vmcs_read_raw(VMCS_GUEST_RIP);
    vmcs_write_raw(VMCS_GUEST_RIP, where - INT_N_LENGTH);
    vmcs_write_raw(VMCS_ENTRY_INTERRUPTION_INFORMATION, INTERRUPTION_VALID | type_vector);
    vmcs_write_raw(VMCS_ENTRY_INSTRUCTION_LENGTH, INT_N_LENGTH);
    check_equal("exit reason", vmx_run(job_nothing), EXIT_REASON_VMCALL);
}

static void block_and_inject(uint64_t type_vector)
{
    vmcs_write_raw(VMCS_GUEST_INTERRUPTIBILITY_STATE, BLOCKING_BY_MOV_SS);
    vmcs_write_raw(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, PENDING_DEBUG_ENABLED | DR6_B0);
    inject(type_vector);
}

static void check_entry(void)
{
    check_about("INT n injected behind MOV SS at a watchpoint", ": ");
    block_and_inject(TYPE_SOFTWARE | VECTOR_SOFTWARE);
    CHECK_EVENTS({VECTOR_DB, handler_of(VECTOR_SOFTWARE), DR6_B0}, {VECTOR_SOFTWARE, where, 0});

    check_about("an exception injected behind MOV SS at a watchpoint", ": ");
    block_and_inject(TYPE_HARDWARE | VECTOR_UD);
    CHECK_EVENTS({VECTOR_UD, where - UD2_LENGTH, 0});
}

/* An injected #DB leaves DEBUGCTL unchanged. */
static void check_debugctl(void)
{
    check_about("an injected #DB", ": ");
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, DEBUGCTL_BTF);
    where = vmcs_read_raw(VMCS_GUEST_RIP);
    inject(TYPE_HARDWARE | VECTOR_DB);
    CHECK_EVENTS({VECTOR_DB, where - INT_N_LENGTH, 0});
    check_equal("DEBUGCTL", vmcs_read_raw(VMCS_GUEST_IA32_DEBUGCTL), DEBUGCTL_BTF);
    vmcs_write_raw(VMCS_GUEST_IA32_DEBUGCTL, 0);
}

/* The interrupt's gate is not present, so its delivery exits. Then the interrupt is injected. */
static void check_exit(void)
{
    check_about("INT n behind MOV SS at a watchpoint, VM exit from its delivery", ": ");
    events_clear();
    cpu_gate_present(VECTOR_SOFTWARE, false);
    vmcs_write_raw(VMCS_EXCEPTION_BITMAP, BIT(VECTOR_NP));
    vmcs_write_raw(VMCS_GUEST_DR7, DR7_WATCH_0);
    check_equal("exit reason", vmx_run(job_software_interrupt), EXIT_REASON_EXCEPTION_OR_NMI);
    check_equal("RIP", vmcs_read_raw(VMCS_GUEST_RIP), where);
    check_equal("IDT-vectoring information", vmcs_read_raw(VMCS_IDT_VECTORING_INFORMATION),
                INTERRUPTION_VALID | TYPE_SOFTWARE | VECTOR_SOFTWARE);
    check_equal("blocking", vmcs_read_raw(VMCS_GUEST_INTERRUPTIBILITY_STATE), BLOCKING_BY_MOV_SS);
    check_equal("pending debug exceptions", vmcs_read_raw(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS),
                PENDING_DEBUG_ENABLED | DR6_B0);
    check_events(NULL, 0);

    check_about("and injected again", ": ");
    cpu_gate_present(VECTOR_SOFTWARE, true);
    vmcs_write_raw(VMCS_GUEST_DR7, DR7_RESET);
    vmcs_write_raw(VMCS_ENTRY_INTERRUPTION_INFORMATION,
                   INTERRUPTION_VALID | TYPE_SOFTWARE | VECTOR_SOFTWARE);
    vmcs_write_raw(VMCS_ENTRY_INSTRUCTION_LENGTH, INT_N_LENGTH);
    check_equal("exit reason", vmx_run(job_software_interrupt), EXIT_REASON_VMCALL);
    CHECK_EVENTS({VECTOR_DB, handler_of(VECTOR_SOFTWARE), DR6_B0},
                 {VECTOR_SOFTWARE, where + INT_N_LENGTH, 0});
    vmcs_write_raw(VMCS_EXCEPTION_BITMAP, 0);
}

void emulator_inject(void)
{
    events_begin();
    vmx_begin();
    check_entry();
    check_debugctl();
    check_exit();
}
