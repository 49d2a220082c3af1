/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the test kernel's parts know of each other. One processor, interrupts off, everything at
 * CPL 0; all state is global, so that assembly can reach it without a register.
 */
#pragma once

#include <asm/bootparam.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../programs/measure/region.h"
#include "registers.h"

/* ---- cpu.c: descriptor tables ---- */

#define CODE_SELECTOR 0x10 /* as the boot protocol has them */
#define DATA_SELECTOR 0x18
#define TSS_SELECTOR 0x20
#define IST_NMI 1
#define IST_EXCEPTION 2 /* its own stack, so that a probe's stack pointer can hold anything */

#define IST_SPOILT 3
#define GATE_PRESENT 0x80

struct gate {
    uint16_t offset_low, selector;
    uint8_t ist, type;
    uint16_t offset_middle;
    uint32_t offset_high, reserved;
} __attribute__((packed));
/* An interrupt gate of CPL 0, for code at CODE_SELECTOR. */
struct gate cpu_gate_to(const void *handler, uint8_t ist);

void cpu_setup(void);
/* Loads CS and SS by IRET, which also unblocks NMIs: a kernel may be started with them blocked. */
void cpu_load_cs_ss(void);
/* Gives an exception another stack, one for all that have one; 0: its own again. */
void cpu_exception_stack(unsigned vector, uint64_t top);
/* Gives NMIs another handler, on the same stack; NULL: nmi_entry again. */
void cpu_nmi_entry(const void *handler);

/* Gives a vector another handler, on the stack of what it interrupts, until cpu_setup(). */
void cpu_gate(unsigned vector, const void *handler);
void cpu_gate_present(unsigned vector, bool present);
struct tss *cpu_task_state(void);
/* A triple fault. */
void shut_down(void);

/* Which of the two IDTs this processor has: of handlers for one that runs alone, or by processor.
 */
void cpu_handlers(bool alone);
/* Says which processor runs a test alone. */
void cpu_current(unsigned number);
/* The IDT by processor; and GDT, TSS and that IDT on another processor than the first. */
void cpu_setup_smp(void);
void cpu_setup_other(unsigned number);
/* In the IDT by processor: these vectors to stubs STUB_BYTES apart, on the stack of what they
 * interrupt; NULL: back to what cpu_setup_smp() made of them. */
void cpu_interrupts(unsigned first, unsigned last, const char *stubs);
/* One vector of it, on the stack IST n; NULL: as cpu_setup_smp() made it. */
void cpu_gate_smp(unsigned vector, const char *handler, uint8_t ist);
/* The two stacks of a processor's events, tops of IST_NMI and IST_EXCEPTION; its own ones first. */
void cpu_event_stacks(unsigned number, uint64_t own[2], uint64_t nmi_top, uint64_t exception_top);

static inline uint64_t read_xcr0(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static inline void write_xcr0(uint64_t value)
{
    __asm__ volatile("xsetbv" : : "c"(0), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

/* read_dr6() and so on. */
#define DEFINE_DR(n)                                                                               \
    static inline uint64_t read_dr##n(void)                                                        \
    {                                                                                              \
        uint64_t value;                                                                            \
        __asm__ volatile("mov %%dr" #n ", %0" : "=r"(value));                                      \
        return value;                                                                              \
    }                                                                                              \
    static inline void write_dr##n(uint64_t value)                                                 \
    {                                                                                              \
        __asm__ volatile("mov %0, %%dr" #n : : "r"(value) : "memory");                             \
    }
DEFINE_DR(0)
DEFINE_DR(1)
DEFINE_DR(6)
DEFINE_DR(7)
#undef DEFINE_DR

/* ---- trap.asm, trap.c: exceptions and NMIs ---- */

#define STUB_BYTES 16
#define VECTORS 256
#define EXCEPTIONS 32
extern const char exception_stubs[]; /* EXCEPTIONS stubs, STUB_BYTES apart */
extern const char stray_interrupt[]; /* all other vectors */
extern const char nmi_entry[];
extern const char nmi_counted_entry[]; /* for NMIs inside it: counts them in nmi_counted */
extern volatile uint64_t nmi_counted;

/* Registers as the stubs push them, below what the processor pushed. */
struct trap_frame {
    uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
    uint64_t vector, error_code; /* exceptions only; an NMI's frame has 0 in both */
    uint64_t rip, cs, rflags, rsp, ss;
};

/* Where a fault goes on, without IRET (which would unblock NMIs) and with all registers and flags
 * as they were at the fault; 0: a fault is an error and ends the run. Cleared by the fault. */
extern uint64_t fault_resume;
/* The last fault that was expected: its vector, and how many there were. */
extern uint64_t fault_vector, fault_count;
extern uint64_t stray_interrupts;

struct nmi_record {
    uint64_t count;        /* NMI handlers begun */
    uint64_t nested;       /* of these, begun while another one had not ended */
    uint64_t rip;          /* where the last one came from */
    uint64_t previous_rip; /* and the one before */
    uint64_t moved;        /* how often these two differed */
    void (*action)(void);  /* run inside the next handler, once; NULL: none */
};
extern volatile struct nmi_record nmi;

/* What may fault: true when it did not. */
bool rdmsr_try(uint32_t index, uint64_t *value);
bool wrmsr_try(uint32_t index, uint64_t value);
bool read_try(uint64_t address, uint64_t *value);
bool call_try(const void *code, uint64_t rdi);

/* ---- apic.c: the local APIC, in the mode it is in ---- */

#define SVR_SOFTWARE_ENABLE (1u << 8)
#define ICR_FIXED 0u
#define ICR_NMI (4u << 8)
#define ICR_INIT (5u << 8)
#define ICR_STARTUP (6u << 8)
#define ICR_ASSERT (1u << 14)
#define ICR_LEVEL (1u << 15)
#define LVT_MASKED (1u << 16)
#define LVT_NMI (4u << 8)

bool apic_x2(void);
/* To x2APIC mode; false where the processor has none. The way back is test_apic_leave(). */
bool apic_enter_x2(void);
/* A register by its offset in the xAPIC's page, in either mode; not the ICR. */
uint32_t apic_read(uint32_t offset);
void apic_write(uint32_t offset, uint32_t value);
/* This processor's own, in the mode that it is in. */
uint32_t apic_id(void);
/* An interrupt command to one processor. */
void apic_send(uint32_t id, uint32_t command);
/* The same to all but this one, by the shorthand. */
void apic_send_others(uint32_t command);
void apic_self_nmi(void);
uint32_t apic_read_lvtpc(void);
void apic_write_lvtpc(uint32_t value);
/* xAPIC: the ICR's high half, which a root-mode handler has to leave as it found it. 0 in x2APIC
 * mode, where the ICR is one register. */
uint32_t apic_icr_high(void);
void apic_set_icr_high(uint32_t value);
void apic_eoi(void);
/* SVR bit 8; off, the processor masks every LVT entry. */
void apic_software_enable(bool on);

/* ---- timer.c: an NMI from the PIT, through the I/O APIC, TIMER_TICKS after the start ---- */

bool timer_nmi_setup(void); /* false: there is no I/O APIC */
void timer_nmi_start(void);
void timer_nmi_stop(void);

/* ---- machine.c: the machine around ---- */

#define COMMAND_LINE_MAX 2048
void machine_setup(const struct boot_params *bp);
/* Power-off by ACPI, else a reset. */
_Noreturn void machine_off(void);
/* The port of the PM1a control register; 0: not known. */
uint16_t machine_pm1a_control(void);
/* S5's SLP_TYP; SLP_TYP_UNKNOWN: not found. */
uint8_t machine_s5_type(void);
/* Bit n: the DSDT, whose checksum is right, has a name _Sn_ (1 to 5). */
unsigned machine_sleep_names(void);
/* Where a byte that is written resets the machine: an address or a port. */
uint64_t machine_reset_address(void);
/* True under PMUvisor (CPUID leaf 40000000H). */
bool under_pmuvisor(void);
/* VMCALL with a number and an argument in RBX; natively it must not be called. */
int64_t hypercall(uint64_t number, uint64_t argument);
/* How many exits of this reason there have been. */
uint64_t exits_of(unsigned reason);
/* As the loader left them. */
const struct boot_params *machine_boot_params(void);
/* Where the RSDP is; 0: none was found. */
uint64_t machine_rsdp(void);
/* The n-th range of reserved memory above the first MiB, in whole pages; false: there are no more.
 */
bool machine_reserved(unsigned n, uint64_t *base, uint64_t *size);
/* The page whose write is the reset; 0: none. */
uint64_t machine_doorbell(void);
/* An address in memory that is hidden from this guest; 0: none is known. */
uint64_t hidden_address(void);

/* ---- tap.c: what is printed ---- */

#define TEXT_MAX 160
/* The run's result so far; every test ends in one of these. The note may be NULL. */
void tap_result(bool ok, const char *name, const char *note);
void tap_skip(const char *name, const char *why);
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds a key to the results line. */
void tap_value(const char *key, uint64_t value);
_Noreturn void tap_bail_out(const char *why);
/* Plan and results line. */
void tap_end(void);

/* ---- the tests ---- */

bool text_equal(const char *a, const char *b);

/* Exits of a reason that no sweep uses (RDMSR), without an NMI: what the hypervisor remembers of
 * the last NMI, it may work off here. Then the exit under test takes the same path each time. */
void settle(void);
/* Sends this processor an NMI, and waits until it has come. */
void nmi_send_and_wait(void);
/* Exits until the hypervisor has forgotten the last NMI of the host. */
void settle_all(void);
static inline void linger(uint64_t iterations)
{
    for (uint64_t i = 0; i < iterations; i++)
        cpu_relax();
}

#define NAME_MAX 64
#define ARGUMENTS_MAX 6
/* One test as the command line asks for it: `kind`, or `kind:word`, then numbers: `:1:2`. */
struct job {
    char name[NAME_MAX]; /* all of it, to be reported by */
    char kind[NAME_MAX];
    char word[NAME_MAX];            /* empty: none */
    uint64_t number[ARGUMENTS_MAX]; /* 0 where none is given */
};

/* ---- test_exits.c ---- */

/* False, and the test is skipped: there is no PMU with a fixed counter. */
bool pmu_there(const struct job *job);

/* ---- test_cet.c: supervisor shadow stacks ---- */

/* False, and the test is skipped: CPUID shows no CET. */
bool cet_offered(const struct job *job);
/* Makes this page of the kernel a shadow stack, or memory again. */
void cet_protect(const void *page, bool on);
/* The shadow stack of the work: one page, with its token at the end. */
extern uint64_t cet_stack[];
/* NMIs, in work with a shadow stack, that have one of their own, whose token lies there: on the
 * first processor, with the IDT by processor. False, and lines say what is not as it has to be. */
bool cet_nmis_on(const uint64_t *token);

/* SDM Vol. 3, "BTS and DS Save Area", of 64 bits. */
struct debug_store {
    uint64_t bts[4];
    uint64_t base, index, maximum, threshold;
    uint64_t reset[8];
};

/* ---- test_sampling.c: PEBS of each 24th instruction, into a buffer at this address; and off ----
 * */

void sampling_on(uint64_t at);
void sampling_off(void);

/* ---- all of them ---- */

#define TEST(kind, function) void function(const struct job *job);
#include "tests.inc"
#include "experiments.inc"
#undef TEST

/* Regions of the ledger that tests mark. */
enum region {
    REGION_CPUID = 1001,
    REGION_VMCALL,
    REGION_MSR,
    REGION_PMI,
    REGION_NMI,
    REGION_SWEEP_PMI,
    REGION_SWEEP_PMI_CLEAN,
    REGION_REGISTERS,
    /* + enum probe_kind: exits without an NMI, just before a sweep. */
    REGION_SWEEP_CLEAN = 1100,
    REGION_SWEEP_CLEAN_BLOCKED = 1200,
};
