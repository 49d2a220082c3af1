/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Intel PT on a processor that has it (the knob `pt`): registers and faults, a trace in a
 * single range and in tables with the PMI of a full one; then a guest's, by its own physical
 * addresses, and what VM entry checks. SDM Vol. 3, "Intel Processor Trace", "VM Entries", "VM
 * Exits".
 */
#include "emulator_vmx.h"

#define FUPONPTW BIT(5)
#define PTWEN BIT(12)
#define STATUS_STOPPED BIT(5)
#define TOPA_STOP BIT(4)

#define LEAF_PTWRITE 0x10u

#define BUFFER_PAGES 4
#define EPT_WB (EPTP_MEMORY_WB << EPT_MEMORY_TYPE_SHIFT)
/* Intel PT: the controls of each kind, all together. */
#define SECONDARY_OF_PT (SECONDARY_CONCEAL_VMX_FROM_PT | SECONDARY_PT_GUEST_PHYSICAL)
#define ENTRY_OF_PT (ENTRY_CONCEAL_FROM_PT | ENTRY_LOAD_RTIT_CTL)
#define EXIT_OF_PT (EXIT_CONCEAL_FROM_PT | EXIT_CLEAR_RTIT_CTL)
#define VALID_NMI 0x80000202u

/* The first bytes of packets. */
#define PACKET_PIP 0x4302

#define BUFFER_SIZE (BUFFER_PAGES * PAGE_SIZE)
static uint8_t buffer[BUFFER_SIZE] __attribute__((aligned(BUFFER_SIZE)));
static uint64_t table[512] __attribute__((aligned(4096)));

static __attribute__((noinline)) void branches(unsigned count)
{
    for (volatile unsigned n = 0; n < count; n++)
        ;
}

static void single_range(uint64_t base)
{
    wrmsr(IA32_RTIT_OUTPUT_BASE, base);
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, BUFFER_SIZE - 1);
    wrmsr(IA32_RTIT_STATUS, 0);
    for (unsigned n = 0; n < BUFFER_SIZE; n++)
        buffer[n] = 0;
}

/* The number of bytes in the trace. */
static uint64_t written(void) { return rdmsr(IA32_RTIT_OUTPUT_MASK_PTRS) >> 32; }

static bool begins_with_psb(const uint8_t *at)
{
    for (unsigned n = 0; n < 16; n++)
        if (at[n] != (n & 1 ? 0x82 : 0x02))
            return false;
    return true;
}

static unsigned pips(uint64_t bytes)
{
    unsigned count = 0;

    for (uint64_t n = 0; n + 1 < bytes; n++)
        count += (buffer[n] | buffer[n + 1] << 8) == PACKET_PIP;
    return count;
}

static void check_registers(void)
{
    struct cpuid_result leaf = cpuid(0x14, 0), more = cpuid(0x14, 1);

    check_equal("leaf 14H: EBX", leaf.ebx & ~LEAF_PTWRITE, 0xf);
    check_equal("leaf 14H: ECX", leaf.ecx, 7);
    check_equal("leaf 14H.1: EAX", more.eax, 0x02490002);
    check_equal("leaf 14H.1: EBX", more.ebx, 0x003f1fff);
    check_that("CTL bit 4 faults", wrmsr_faults(IA32_RTIT_CTL, BIT(4)));
    check_equal("CTL bit 12 faults", wrmsr_faults(IA32_RTIT_CTL, PTWEN),
                (leaf.ebx & LEAF_PTWRITE) == 0);
    check_that("MTCFreq 1 faults", wrmsr_faults(IA32_RTIT_CTL, BIT(14)));
    check_that("ADDR0_CFG 3 faults", wrmsr_faults(IA32_RTIT_CTL, BIT(32) | BIT(33)));
    check_that("STATUS bit 3 faults", wrmsr_faults(IA32_RTIT_STATUS, BIT(3)));
    check_that("CR3_MATCH bit 4 faults", wrmsr_faults(IA32_RTIT_CR3_MATCH, BIT(4)));
    check_that("OUTPUT_BASE bit 6 faults", wrmsr_faults(IA32_RTIT_OUTPUT_BASE, BIT(6)));
    check_that("ADDR0_A takes canonical addresses", wrmsr_faults(IA32_RTIT_ADDR0_A, BIT(62)));
    check_that("there is no ADDR2_A", rdmsr_faults(IA32_RTIT_ADDR0_A + 4));
    single_range(fuzz_physical(buffer));
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN);
    check_equal("TriggerEn", rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_TRIGGER_EN,
                RTIT_STATUS_TRIGGER_EN);
    check_that("STATUS faults while TraceEn is set", wrmsr_faults(IA32_RTIT_STATUS, 0));
    check_that("so does CTL", wrmsr_faults(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS));
    check_that("but for the same value",
               !wrmsr_faults(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN));
    wrmsr(IA32_RTIT_CTL, 0);
    check_equal("TriggerEn after it", rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_TRIGGER_EN, 0);
}

/* Traces PTWRITE of a register and of memory, each with a FUP. */
static void check_ptwrite(void)
{
    static const uint8_t packets[] = {0x02, 0x92, 0x44, 0x33, 0x22, 0x11};
    uint64_t value = UINT64_C(0x8877665544332211), bytes;
    bool first = false, second = false;

    single_range(fuzz_physical(buffer));
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN | PTWEN | FUPONPTW);
    __asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xe0" : : "a"(0x11223344));
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0x20" : : "a"(&value), "m"(value));
    wrmsr(IA32_RTIT_CTL, 0);
    bytes = written();
    for (uint64_t n = 0; n + 16 < bytes; n++) {
        bool same = true;
        for (unsigned k = 0; k < sizeof(packets); k++)
            same &= buffer[n + k] == packets[k];
        first |= same;
        second |= buffer[n] == 0x02 && buffer[n + 1] == 0xb2 && buffer[n + 2] == 0x11 &&
                  buffer[n + 9] == 0x88;
    }
    check_that("PTWRITE of a register", first);
    check_that("PTWRITE of memory", second);
}

static void check_ranges(void)
{
    single_range(fuzz_physical(buffer));
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN);
    branches(100);
    wrmsr(IA32_RTIT_CTL, 0);
    check_that("PSB is first", begins_with_psb(buffer));
    check_equal("TIP.PGD is last", buffer[written() - 1], PACKET_TIP_PGD);
    check_that("some bytes", written() > 40 && written() < 400);

    /* Two regions of 4 KiB: the first interrupts, the second stops. */
    table[0] = fuzz_physical(buffer) | TOPA_INT;
    table[1] = (fuzz_physical(buffer) + PAGE_SIZE) | TOPA_STOP;
    table[2] = fuzz_physical(table) | TOPA_END;
    wrmsr(IA32_RTIT_OUTPUT_BASE, fuzz_physical(table));
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, 0);
    wrmsr(IA32_RTIT_STATUS, 0);
    nmi.count = 0;
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN | RTIT_CTL_TOPA);
    branches(100000);
    wrmsr(IA32_RTIT_CTL, 0);
    check_equal("one PMI", nmi.count, 1);
    check_equal("it says why", rdmsr(IA32_PERF_GLOBAL_STATUS), STATUS_TOPA_PMI);
    check_equal("stopped", rdmsr(IA32_RTIT_STATUS) & (STATUS_STOPPED | RTIT_STATUS_ERROR),
                STATUS_STOPPED);
    check_equal("at the end of the second", rdmsr(IA32_RTIT_OUTPUT_MASK_PTRS),
                PAGE_SIZE << 32 | BIT(7) | 0x7f);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_TOPA_PMI);
    check_equal("and is cleared", rdmsr(IA32_PERF_GLOBAL_STATUS), 0);

    table[0] = fuzz_physical(buffer) | BIT(1);
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, 0);
    wrmsr(IA32_RTIT_STATUS, 0);
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN | RTIT_CTL_TOPA);
    check_equal("a bad entry is an error",
                rdmsr(IA32_RTIT_STATUS) & (RTIT_STATUS_ERROR | RTIT_STATUS_TRIGGER_EN),
                RTIT_STATUS_ERROR);
    wrmsr(IA32_RTIT_CTL, 0);
}

/* ---- a guest ---- */

static uint64_t ept_pml4[512] __attribute__((aligned(4096)));
static uint64_t ept_pdpt[512] __attribute__((aligned(4096)));
static uint64_t ept_directory[4][512] __attribute__((aligned(4096)));
static uint64_t ept_pages[512] __attribute__((aligned(4096)));
/* The buffer's guest-physical address. All other addresses are the same for guest and host. */
#define GUEST_BUFFER (UINT64_C(3) << 30)

static void job_branches(void) { branches(100); }

static void job_traces(void)
{
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN);
    branches(100);
}

static void ept_make(void)
{
    ept_pml4[0] = fuzz_physical(ept_pdpt) | EPT_RWX;
    for (uint64_t n = 0; n < 4; n++) {
        ept_pdpt[n] = fuzz_physical(ept_directory[n]) | EPT_RWX;
        for (uint64_t k = 0; k < 512; k++)
            ept_directory[n][k] = (n << 30 | k << 21) | EPT_RWX | EPT_WB | EPT_PAGE;
    }
    ept_directory[GUEST_BUFFER >> 30][0] = fuzz_physical(ept_pages) | EPT_RWX;
    for (uint64_t k = 0; k < BUFFER_PAGES; k++)
        ept_pages[k] = (fuzz_physical(buffer) + k * PAGE_SIZE) | EPT_RWX | EPT_WB;
}

static void controls(uint64_t secondary, uint64_t entry, uint64_t exit)
{
    uint64_t primary = vmcs_read_raw(VMCS_PRIMARY_CONTROLS) & ~PRIMARY_SECONDARY_CONTROLS;

    vmcs_write_raw(VMCS_PRIMARY_CONTROLS,
                   primary | (secondary != 0 ? PRIMARY_SECONDARY_CONTROLS : 0));
    vmcs_write_raw(VMCS_SECONDARY_CONTROLS, secondary);
    vmcs_write_raw(VMCS_ENTRY_CONTROLS,
                   (vmcs_read_raw(VMCS_ENTRY_CONTROLS) & ~ENTRY_OF_PT) | entry);
    vmcs_write_raw(VMCS_EXIT_CONTROLS, (vmcs_read_raw(VMCS_EXIT_CONTROLS) & ~EXIT_OF_PT) | exit);
}

static void all_controls(void)
{
    controls(SECONDARY_OF_PT | SECONDARY_ENABLE_EPT, ENTRY_OF_PT, EXIT_OF_PT);
}

static void check_offer(void)
{
    check_equal("PT in VMX operation", rdmsr(IA32_VMX_MISC) & VMX_MISC_PT, VMX_MISC_PT);
    check_equal("secondary controls", rdmsr(IA32_VMX_PROCBASED_CTLS2) >> 32 & SECONDARY_OF_PT,
                SECONDARY_OF_PT);
    check_equal("entry controls", rdmsr(IA32_VMX_TRUE_ENTRY_CTLS) >> 32 & ENTRY_OF_PT, ENTRY_OF_PT);
    check_equal("exit controls", rdmsr(IA32_VMX_TRUE_EXIT_CTLS) >> 32 & EXIT_OF_PT, EXIT_OF_PT);
}

static void check_controls(void)
{
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);
    controls(SECONDARY_PT_GUEST_PHYSICAL | SECONDARY_ENABLE_EPT, 0, EXIT_CLEAR_RTIT_CTL);
    check_equal("guest addresses without the load control", vmx_refusal(job_branches),
                ERROR_CONTROLS);
    controls(SECONDARY_PT_GUEST_PHYSICAL | SECONDARY_ENABLE_EPT, ENTRY_LOAD_RTIT_CTL, 0);
    check_equal("without the clear control", vmx_refusal(job_branches), ERROR_CONTROLS);
    controls(SECONDARY_PT_GUEST_PHYSICAL, ENTRY_LOAD_RTIT_CTL, EXIT_CLEAR_RTIT_CTL);
    check_equal("without EPT", vmx_refusal(job_branches), ERROR_CONTROLS);
    all_controls();
    single_range(fuzz_physical(buffer));
    wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN);
    check_equal("TraceEn with the load control", vmx_refusal(job_branches), ERROR_CONTROLS);
    wrmsr(IA32_RTIT_CTL, 0);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, BIT(18));
    check_equal("a reserved bit in the field", vmx_run(job_branches), REASON_ENTRY_GUEST_STATE);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);
    single_range(fuzz_physical(buffer));
    check_equal("good again", vmx_run(job_branches), EXIT_REASON_VMCALL);
    check_equal("nothing is written", written(), 0);
}

static void check_guest_trace(void)
{
    uint64_t ctl = RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN, first, second;

    single_range(GUEST_BUFFER);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, ctl);
    check_equal("traced: exit reason", vmx_run(job_branches), EXIT_REASON_VMCALL);
    check_equal("CTL is clear", rdmsr(IA32_RTIT_CTL), 0);
    check_equal("and saved", vmcs_read_raw(VMCS_GUEST_IA32_RTIT_CTL), ctl);
    first = written();
    check_that("through EPT", first > 40 && begins_with_psb(buffer));
    check_equal("TIP.PGD is last", buffer[first - 1], PACKET_TIP_PGD);
    check_equal("no PIP but that of PSB+", pips(first), 1);
    branches(1000);
    check_equal("root mode has no packets", written(), first);
    /* Without this control the guest's trace contains the host's CR3. */
    controls(SECONDARY_OF_PT | SECONDARY_ENABLE_EPT, ENTRY_OF_PT, EXIT_CLEAR_RTIT_CTL);
    vmx_run(job_branches);
    second = written();
    check_that("more is written", second > first);
    check_equal("PIP of an exit that is not concealed", pips(second), 2);
    all_controls();
    /* Without any of the controls, guest and host are both traced. */
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);
    controls(SECONDARY_ENABLE_EPT, 0, 0);
    single_range(fuzz_physical(buffer));
    wrmsr(IA32_RTIT_CTL, ctl);
    vmx_run(job_branches);
    wrmsr(IA32_RTIT_CTL, 0);
    check_equal("PIPs of PSB+, entry and exit", pips(written()), 3);
    all_controls();
}

static void hide(uint64_t page, bool hidden)
{
    ept_pages[page] = hidden ? 0 : (fuzz_physical(buffer) + page * PAGE_SIZE) | EPT_RWX | EPT_WB;
    __asm__ volatile("invept %0, %1"
                     :
                     : "m"((uint64_t[2]){0, 0}), "r"(UINT64_C(2))
                     : "cc", "memory");
}

static void check_violation(uint64_t page)
{
    uint64_t qualification = vmcs_read_raw(VMCS_EXIT_QUALIFICATION);

    check_equal("a write", qualification & EPT_VIOLATION_WRITE, EPT_VIOLATION_WRITE);
    check_equal("asynchronous", qualification & EPT_VIOLATION_ASYNCHRONOUS,
                EPT_VIOLATION_ASYNCHRONOUS);
    check_equal("no linear address", qualification & EPT_VIOLATION_LINEAR_VALID, 0);
    check_equal("the page", vmcs_read_raw(VMCS_GUEST_PHYSICAL_ADDRESS),
                GUEST_BUFFER + page * PAGE_SIZE);
}

static void check_violations(void)
{
    uint64_t ctl = RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN, rip;

    /* The entry exits before the guest executes an instruction and before it gets an event. */
    single_range(GUEST_BUFFER);
    hide(0, true);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, ctl);
    rip = vmcs_read_raw(VMCS_GUEST_RIP);
    vmcs_write_raw(VMCS_ENTRY_INTERRUPTION_INFORMATION, VALID_NMI);
    check_equal("hidden: exit reason", vmx_run(job_branches), EXIT_REASON_EPT_VIOLATION);
    check_violation(0);
    check_equal("RIP stays", vmcs_read_raw(VMCS_GUEST_RIP), rip);
    check_equal("the event was to be delivered", vmcs_read_raw(VMCS_IDT_VECTORING_INFORMATION),
                VALID_NMI);
    check_equal("CTL is saved", vmcs_read_raw(VMCS_GUEST_IA32_RTIT_CTL), ctl);
    check_equal("nothing is written", written(), 0);
    vmcs_write_raw(VMCS_ENTRY_INTERRUPTION_INFORMATION, 0);
    hide(0, false);
    check_equal("shown: exit reason", vmx_run(job_branches), EXIT_REASON_VMCALL);
    check_that("and written", written() > 40);

    /* WRMSR sets TraceEn, and the exit follows the WRMSR. */
    single_range(GUEST_BUFFER);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);
    hide(0, true);
    check_equal("by WRMSR: exit reason", vmx_run(job_traces), EXIT_REASON_EPT_VIOLATION);
    check_violation(0);
    rip = vmcs_read_raw(VMCS_GUEST_RIP);
    check_that("after the instruction",
               ((const uint8_t *)rip)[-2] == 0x0f && ((const uint8_t *)rip)[-1] == 0x30);
    check_equal("TraceEn is set", vmcs_read_raw(VMCS_GUEST_IA32_RTIT_CTL), ctl);
    hide(0, false);
    check_equal("and it goes on", vmx_run(job_traces), EXIT_REASON_VMCALL);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);

    /* The exit for the next page comes before the current page is full. */
    single_range(GUEST_BUFFER);
    hide(1, true);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, ctl);
    check_equal("the next page: exit reason", vmx_run(job_branches), EXIT_REASON_EPT_VIOLATION);
    check_violation(1);
    hide(1, false);
    check_equal("shown: exit reason", vmx_run(job_branches), EXIT_REASON_VMCALL);
    vmcs_write_raw(VMCS_GUEST_IA32_RTIT_CTL, 0);
}

void emulator_pt(void)
{
    check_about("PT: ", "");
    wrmsr(IA32_LSTAR, 0);
    check_registers();
    check_ranges();
    if (cpuid(0x14, 0).ebx & LEAF_PTWRITE)
        check_ptwrite();
}

void emulator_pt_guest(void)
{
    vmx_begin();
    check_about("PT, guest: ", "");
    ept_make();
    vmcs_write_raw(VMCS_EPT_POINTER, fuzz_physical(ept_pml4) | EPTP_WALK_4 | EPTP_MEMORY_WB);
    vmcs_write_raw(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    check_offer();
    check_controls();
    check_guest_trace();
    check_violations();
}
