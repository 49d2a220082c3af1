/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Executes each kind of instruction that the ledger counts in a region of its own: without VMX, in
 * root mode and in a guest. tests/e2e/test_emulator.py holds the ledger against the rows that are
 * printed here (testbed/README.md, "Ledger").
 */
#include "console/log.h"
#include "emulator_vmx.h"

#define REGION_COUNTS 1300u
#define ROUNDS 7u
#define X2APIC_ID (X2APIC_MSR + APIC_ID / 16)
#define X2APIC_TPR (X2APIC_MSR + APIC_TPR / 16)

static volatile uint32_t *xapic(uint32_t offset)
{
    return (volatile uint32_t *)(uintptr_t)(APIC_PAGE + offset);
}

static void rdmsr_pmu(void) { rdmsr(IA32_PERF_GLOBAL_CTRL); }
static void rdmsr_apic(void) { rdmsr(X2APIC_ID); }
static void rdmsr_other(void) { rdmsr(IA32_APIC_BASE); }
static void wrmsr_pmu(void) { wrmsr(IA32_PMC0, 0); }
static void wrmsr_apic(void) { wrmsr(X2APIC_TPR, 0); }
static void wrmsr_other(void) { wrmsr(IA32_FLUSH_CMD, 0); }
static void spec_ctrl(void) { wrmsr(IA32_SPEC_CTRL, 0); }
static void l1d_flush(void) { wrmsr(IA32_FLUSH_CMD, FLUSH_CMD_L1D); }
static void fault(void)
{
    check_that("a reserved bit faults", wrmsr_faults(IA32_PERF_GLOBAL_CTRL, BIT(63)));
}
static void apic_load(void) { (void)*xapic(APIC_ID); }
static void apic_modify(void) { *xapic(APIC_TPR) |= 0; }
static void count_rdpmc(void) { rdpmc(0); }

static void verw(void)
{
    uint16_t selector = DATA_SELECTOR;

    __asm__ volatile("verw %0" : : "m"(selector) : "cc");
}

static void cr3_load(void)
{
    uint64_t cr3 = read_cr3();

    __asm__ volatile("mov %0, %%cr3" : : "r"(cr3) : "memory");
}

/* In the guest it exits, and no register but RSP comes back. */
static void count_cpuid(void)
{
    __asm__ volatile("push %%rbx\n\t"
                     "push %%rbp\n\t"
                     "xor %%eax, %%eax\n\t"
                     "cpuid\n\t"
                     "pop %%rbp\n\t"
                     "pop %%rbx"
                     :
                     :
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
                       "r14", "r15", "cc", "memory");
}

static const struct operation {
    const char *kind; /* NULL: it is none */
    void (*run)(void);
    unsigned times; /* the number that one run counts */
    bool x2apic;    /* the local APIC's mode */
    bool exits;     /* in the guest, where it does not count */
} operations[] = {
    {"apic_access", apic_load, 1, false, false},
    {"apic_access", apic_modify, 2, false, false},
    {"rdmsr_pmu", rdmsr_pmu, 1, true, false},
    {"rdmsr_apic", rdmsr_apic, 1, true, false},
    {"rdmsr_other", rdmsr_other, 1, true, false},
    {"wrmsr_pmu", wrmsr_pmu, 1, true, false},
    {"wrmsr_apic", wrmsr_apic, 1, true, false},
    {"wrmsr_other", wrmsr_other, 1, true, false},
    {"spec_ctrl", spec_ctrl, 1, true, false},
    {"l1d_flush", l1d_flush, 1, true, false},
    {"verw", verw, 1, true, false},
    {"rdpmc", count_rdpmc, 1, true, false},
    {"iret", cpu_load_cs_ss, 1, true, false},
    {"cr3_load", cr3_load, 1, true, false},
    {"cpuid", count_cpuid, 1, true, true},
    {NULL, fault, 0, true, false},
};

static uint32_t region = REGION_COUNTS;
static const struct operation *operation;

static void all_rounds(void)
{
    region_mark(region, true);
    for (unsigned n = 0; n < ROUNDS; n++)
        operation->run();
    region_mark(region, false);
}

static void nothing(void) {}

static void in_guest(void)
{
    while (vmx_run(all_rounds) == EXIT_REASON_CPUID)
        vmcs_write_raw(VMCS_GUEST_RIP,
                       vmcs_read_raw(VMCS_GUEST_RIP) + vmcs_read_raw(VMCS_EXIT_INSTRUCTION_LENGTH));
}

static void apic_mode(bool x2apic)
{
    uint64_t base = rdmsr(IA32_APIC_BASE) & ~(APIC_BASE_EN | APIC_BASE_EXTD);

    if (x2apic) {
        apic_enter_x2();
    } else if (apic_x2()) {
        wrmsr(IA32_APIC_BASE, base);
        wrmsr(IA32_APIC_BASE, base | APIC_BASE_EN);
    }
}

static void in_world(const char *world, void (*run)(void), bool guest)
{
    for (unsigned i = 0; i < LENGTH_OF(operations); i++) {
        operation = &operations[i];
        apic_mode(operation->x2apic);
        run();
        log_printf("emulator: region=%u world=%s kind=%s count=%u\n", region++, world,
                   operation->kind ? operation->kind : "none",
                   guest && operation->exits ? 0 : operation->times * ROUNDS);
    }
}

void emulator_counts(void)
{
    in_world("nonroot", all_rounds, false);
    vmx_begin();
    in_world("root", all_rounds, false);
    check_equal("the guest's first exit", vmx_run(nothing), EXIT_REASON_VMCALL);
    in_world("nonroot", in_guest, true);
}
