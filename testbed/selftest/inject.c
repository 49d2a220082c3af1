/* SPDX-License-Identifier: BSD-2-Clause
 * inject.c: what a VM entry that injects an event does to pending debug exceptions, and what a VM
 * exit from the delivery of one saves (testbed/patches/16). SDM Vol. 3, "Delivery of Pending Debug
 * Exceptions after VM Entry", "Saving Non-Register State", "VM-Entry Controls for Event Injection".
 */
#include "debug.h"

#include "vmcs.h"

#define INTERRUPTION_VALID BIT(31)
#define TYPE_HARDWARE (UINT64_C(3) << 8)
#define TYPE_SOFTWARE (UINT64_C(4) << 8)
#define VECTOR_NP 11
#define INT_N_LENGTH 2
#define BLOCKING_BY_MOV_SS BIT(1)
#define PENDING_ENABLED_BREAKPOINT BIT(12)
#define DEBUGCTL_BTF BIT(1)

static uint64_t where;

static void job_nothing(void) {}

/* MOV SS at the watchpoint, then INT n. */
static void job_software_interrupt(void)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"
                     "mov %1, %%ss\n"
                     "1:\tint %2"
                     : "=m"(where)
                     : "m"(watched), "i"(VECTOR_SOFTWARE)
                     : "rax", "memory");
}

/* The event is injected where the guest is, as by an instruction of two bytes before it; each
 * handler of these goes on there. */
static void inject(uint64_t type_vector)
{
    events_clear();
    where = vmx_read(VMCS_GUEST_RIP);
    vmx_write(VMCS_GUEST_RIP, where - INT_N_LENGTH);
    vmx_write(VMCS_ENTRY_INTERRUPTION_INFO, INTERRUPTION_VALID | type_vector);
    vmx_write(VMCS_ENTRY_INSTRUCTION_LENGTH, INT_N_LENGTH);
    check_equal("exit reason", vmx_run(job_nothing), REASON_VMCALL);
}

static void block_and_inject(uint64_t type_vector)
{
    vmx_write(VMCS_GUEST_INTERRUPTIBILITY, BLOCKING_BY_MOV_SS);
    vmx_write(VMCS_GUEST_PENDING_DEBUG, PENDING_ENABLED_BREAKPOINT | DR6_B0);
    inject(type_vector);
}

static void test_entry(void)
{
    check_about("INT n injected behind MOV SS at a watchpoint", ": ");
    block_and_inject(TYPE_SOFTWARE | VECTOR_SOFTWARE);
    check_events(2);
    check_event(0, VECTOR_DB, software_handler(), DR6_B0);
    check_event(1, VECTOR_SOFTWARE, where, 0);

    check_about("an exception injected behind MOV SS at a watchpoint", ": ");
    block_and_inject(TYPE_HARDWARE | VECTOR_UD);
    check_events(1);
    check_event(0, VECTOR_UD, where - UD2_LENGTH, 0);
}

/* A #DB that is injected changes nothing but what its handler does. */
static void test_debugctl(void)
{
    check_about("an injected #DB", ": ");
    vmx_write(VMCS_GUEST_DEBUGCTL, DEBUGCTL_BTF);
    where = vmx_read(VMCS_GUEST_RIP);
    inject(TYPE_HARDWARE | VECTOR_DB);
    check_events(1);
    check_equal("DEBUGCTL", vmx_read(VMCS_GUEST_DEBUGCTL), DEBUGCTL_BTF);
    vmx_write(VMCS_GUEST_DEBUGCTL, 0);
}

/* The interrupt's gate is not present, and that is a VM exit; then it is injected again. */
static void test_exit(void)
{
    check_about("INT n behind MOV SS at a watchpoint, VM exit from its delivery", ": ");
    events_clear();
    gate_present(VECTOR_SOFTWARE, false);
    vmx_write(VMCS_EXCEPTION_BITMAP, BIT(VECTOR_NP));
    vmx_write(VMCS_GUEST_DR7, DR7_WATCH_0);
    check_equal("exit reason", vmx_run(job_software_interrupt), REASON_EXCEPTION_OR_NMI);
    check_equal("RIP", vmx_read(VMCS_GUEST_RIP), where);
    check_equal("IDT-vectoring information", vmx_read(VMCS_IDT_VECTORING_INFO),
                INTERRUPTION_VALID | TYPE_SOFTWARE | VECTOR_SOFTWARE);
    check_equal("blocking", vmx_read(VMCS_GUEST_INTERRUPTIBILITY), BLOCKING_BY_MOV_SS);
    check_equal("pending debug exceptions", vmx_read(VMCS_GUEST_PENDING_DEBUG),
                PENDING_ENABLED_BREAKPOINT | DR6_B0);
    check_events(0);

    check_about("and injected again", ": ");
    gate_present(VECTOR_SOFTWARE, true);
    vmx_write(VMCS_GUEST_DR7, DR7_FIXED);
    vmx_write(VMCS_ENTRY_INTERRUPTION_INFO, INTERRUPTION_VALID | TYPE_SOFTWARE | VECTOR_SOFTWARE);
    vmx_write(VMCS_ENTRY_INSTRUCTION_LENGTH, INT_N_LENGTH);
    check_equal("exit reason", vmx_run(job_software_interrupt), REASON_VMCALL);
    check_events(2);
    check_event(0, VECTOR_DB, software_handler(), DR6_B0);
    check_event(1, VECTOR_SOFTWARE, where + INT_N_LENGTH, 0);
    vmx_write(VMCS_EXCEPTION_BITMAP, 0);
}

void test_inject(void)
{
    test_entry();
    test_debugctl();
    test_exit();
    check_about("", "");
}
