/* SPDX-License-Identifier: BSD-2-Clause
 * selftest.h: what the files of the emulator's self-test share: privileged instructions, the
 * console, the checks. The program is the machine's firmware application and owns the machine while
 * it runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BIT(n) (UINT64_C(1) << (n))

/* SDM Vol. 4, "Architectural MSRs". */
#define IA32_APIC_BASE 0x01b
#define IA32_FEATURE_CONTROL 0x03a
#define IA32_PMC0 0x0c1
#define IA32_PERFEVTSEL0 0x186
#define MSR_OFFCORE_RSP_0 0x1a6
#define MSR_OFFCORE_RSP_1 0x1a7
#define MSR_LBR_SELECT 0x1c8
#define MSR_LASTBRANCH_TOS 0x1c9
#define IA32_DEBUGCTL 0x1d9
#define IA32_FIXED_CTR0 0x309
#define IA32_PERF_CAPABILITIES 0x345
#define IA32_FIXED_CTR_CTRL 0x38d
#define IA32_PERF_GLOBAL_STATUS 0x38e
#define IA32_PERF_GLOBAL_CTRL 0x38f
#define IA32_PERF_GLOBAL_STATUS_RESET 0x390
#define IA32_PERF_GLOBAL_STATUS_SET 0x391
#define IA32_PERF_GLOBAL_INUSE 0x392
#define IA32_A_PMC0 0x4c1
#define IA32_DS_AREA 0x600
#define MSR_LASTBRANCH_0_FROM_IP 0x680
#define MSR_LASTBRANCH_0_TO_IP 0x6c0
#define IA32_X2APIC_LVT_PMI 0x834
#define IA32_PMC_GP0_CTR 0x1900
#define IA32_PMC_GP0_CFG_A 0x1901
#define IA32_PMC_FX0_CTR 0x1980
#define IA32_PMC_STEP 4
#define IA32_LSTAR 0xc0000082u

/* IA32_PERFEVTSELx, events for kernel mode. */
#define EVTSEL_OS BIT(17)
#define EVTSEL_INT BIT(20)
#define EVTSEL_EN BIT(22)
#define EVENT_INSTRUCTIONS 0xc0u
#define EVENT_BRANCHES 0xc4u
#define EVENT_LLC_REFERENCES 0x4f2eu
#define EVENT_LLC_MISSES 0x412eu

/* Trace ToPA, uncore, the buffer of PEBS. */
#define STATUS_OTHER_PMIS (BIT(55) | BIT(61) | BIT(62))
#define STATUS_LBR_FRZ BIT(58)
#define STATUS_CTR_FRZ BIT(59)
#define DEBUGCTL_LBR BIT(0)
#define DEBUGCTL_FREEZE_LBRS_ON_PMI BIT(11)
#define DEBUGCTL_FREEZE_PERFMON_ON_PMI BIT(12)

/* RDPMC's ECX for fixed counters. */
#define RDPMC_FIXED BIT(30)

/* The local vector table's entry for the PMU. */
#define LVT_NMI 0x400u
#define LVT_MASKED 0x10000u
#define PMI_VECTOR 0x40u
#define TIMER_VECTOR 0x41u

#define CPUID_PERFMON 0xa

/* The machine's own descriptor table. */
#define SELECTOR_CODE 0x08
#define SELECTOR_DATA 0x10
#define SELECTOR_TSS 0x18
#define TSS_SIZE 0x68
extern uint8_t task_state[TSS_SIZE];

static inline void outb(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t inb(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline void outw(uint16_t port, uint16_t value)
{
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint64_t rdmsr(uint32_t index)
{
    uint32_t low, high;

    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline void wrmsr(uint32_t index, uint64_t value)
{
    __asm__ volatile("wrmsr"
                     :
                     : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
                     : "memory");
}

struct cpuid_result {
    uint32_t a, b, c, d;
};

static inline struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_result r;

    __asm__ volatile("cpuid"
                     : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d)
                     : "0"(leaf), "2"(subleaf));
    return r;
}

static inline uint64_t rdpmc(uint32_t index)
{
    uint32_t low, high;

    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
    return (uint64_t)high << 32 | low;
}

static inline uint32_t cpuid_edx(uint32_t leaf)
{
    uint32_t b, c = 0, d;

    __asm__ volatile("cpuid" : "+a"(leaf), "=b"(b), "+c"(c), "=d"(d));
    return d;
}

/* machine.c: exceptions, interrupts, the console. */

/* The processor reads what a handler leaves: else the compiler takes the stores for dead ones. */
struct frame {
    volatile uint64_t rip, cs, rflags, rsp, ss;
};

extern volatile unsigned nmis;
extern volatile unsigned pmi_interrupts;
/* Where the last NMI came from. */
extern volatile uint64_t nmi_rip;
extern volatile unsigned timer_interrupts;
/* The TSC at the last of these. */
extern volatile uint64_t timer_tsc;

void machine_init(void);
/* The handler of a vector, in the processor's one IDT. */
void set_gate(unsigned vector, const void *handler);
void gate_present(unsigned vector, bool present);
void power_off(void);
void print(const char *text);
void print_number(uint64_t number);
/* True if the instruction takes #GP(0). */
bool wrmsr_faults(uint32_t index, uint64_t value);
bool rdmsr_faults(uint32_t index);
bool rdpmc_faults(uint32_t index);
uint32_t lvtpc_read(void);
void lvtpc_write(uint32_t value);
void x2apic_enable(void);
void end_of_interrupt(void);

/* pages.c: page tables that map the first 4 GiB to themselves, each large page with `more` bits
 * set; their CR3. And the entry of a page below 1 GiB in them. */
#define PAGE_PRESENT BIT(0)
#define PAGE_WRITABLE BIT(1)
#define PAGE_USER BIT(2)
#define PAGE_DIRTY BIT(6)
uint64_t page_tables(uint64_t more);
uint64_t *large_page(uint64_t address);

/* vmx.c: the guest's VMCS; one job of the guest, and the exit reason, a VMCALL at the job's end. */
uint64_t vmx_read(uint64_t field);
void vmx_write(uint64_t field, uint64_t value);
uint64_t vmx_run(void (*job)(void));
/* The VM-instruction error of an entry that is refused before the guest's state is loaded. */
uint64_t vmx_refusal(void (*job)(void));
/* VMX operation, and a VMCS of such a guest. */
void vmx_begin(void);

/* Put before the names of the checks that follow. */
void check_about(const char *what, const char *more);
/* A check that failed is printed with what was found and what was wanted. */
void check_equal(const char *what, uint64_t found, uint64_t wanted);
void check_that(const char *what, bool holds);

/* The parts of the test. Those of the APIC and its timer leave it in xAPIC mode. */
void test_apic(void);
void test_timer(void);
void test_debug(void);
/* Uses the handlers of test_debug(); the firmware is done then. */
void test_step(void);
void test_smap(void);
void test_pmu(void);
/* Instead of all others: on a processor with the PMU that selftest.sh's knobs ask for. */
void test_shape(void);
void test_files(void);
void test_events(void);
void test_lbr(void);
void test_vmx(void);
/* Those of the guest that test_vmx() makes. */
void test_inject(void);
/* In x2APIC mode. */
void test_virtual(void);
/* On a processor with Intel PT, and these alone; then of a guest that vmx_begin() makes. */
void test_pt(void);
void test_pt_guest(void);
