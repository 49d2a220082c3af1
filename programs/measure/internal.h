/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the measurements' parts share. Of the hypervisor's headers only hypercall.h and
 * instructions.h, because a kernel module compiles these files, too. MSRs: SDM Vol. 4,
 * "Architectural MSRs"; local APIC: Vol. 3, "Local APIC", "Extended XAPIC (x2APIC)".
 */
#pragma once

#include "instructions.h"
#include "measure.h"
#include "region.h"
#include "statistics.h"

#define MSR_PMC0 0x0c1
#define MSR_PERFEVTSEL0 0x186
#define MSR_PERF_CAPABILITIES_INDEX 0x345
#define PERF_CAPABILITIES_LBR_FMT 0x3fu   /* all of it set: architectural */
#define PERF_CAPABILITIES_LBR_FMT_INFO 5u /* Skylake's: LBR_PLACES, with INFO */
#define PERF_CAPABILITIES_FW_WRITE (1u << 13)
#define MSR_GLOBAL_STATUS 0x38e
#define MSR_GLOBAL_CTRL 0x38f
#define MSR_GLOBAL_OVF_CTRL 0x390 /* IA32_PERF_GLOBAL_STATUS_RESET from version 4 on */
#define MSR_A_PMC0 0x4c1
#define MSR_LASTBRANCH_0_FROM_IP 0x680
#define MSR_LBR_0_FROM_IP 0x1500
#define MSR_LASTBRANCH_TO 0x40 /* TO is so far from FROM, and INFO from TO */
#define MSR_LASTBRANCH_INFO 0x700
#define MSR_LBR_TO 0x100
#define MSR_LBR_INFO (-0x400) /* INFO has the lowest indices */
#define LBR_PLACES 32
#define MSR_LBR_DEPTH 0x14cf
#define COUNTER_0 1         /* in GLOBAL_CTRL, GLOBAL_STATUS and GLOBAL_OVF_CTRL */
#define EVENT_BRANCHES 0xc4 /* branch instructions retired, all; an architectural event */
#define EVENTSEL_USR (1u << 16)
#define EVENTSEL_OS (1u << 17)
#define EVENTSEL_INT (1u << 20)
#define EVENTSEL_EN (1u << 22)

#define LVTPC_NMI (4u << 8)
#define LVTPC_MASKED (1u << 16)

/* ---- the environment, for the time of a measure_run() ---- */

extern const struct measure_environment *measure_host;
/* Checks that failed; each said so in a line of its own. */
extern uint64_t measure_failed;

/* ---- instructions ---- */

static inline uint64_t counter_read(uint32_t counter)
{
    uint32_t low, high;

    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter) : "memory");
    return (uint64_t)high << 32 | low;
}

/* EDX:EAX = TSC. The JMP is for the emulator, whose TSC moves on where a block of instructions
 * ends; so a reading is exact. */
#define TSC_STAMP                                                                                  \
    "jmp 2f\n"                                                                                     \
    "2:\n\t"                                                                                       \
    "lfence\n\t"                                                                                   \
    "rdtsc\n\t"                                                                                    \
    "lfence\n\t"

static inline uint64_t tsc(void)
{
    uint32_t low, high;

    __asm__ volatile(TSC_STAMP : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

/* ---- platform.c: the PMU that CPUID shows, and the local APIC ---- */

struct pmu {
    const char *why_not; /* NULL: it can be measured; else what is missing */
    uint64_t counter_mask;
    uint32_t counter_msr; /* of counter 0, as wide as it can be written */
    bool full_width;
};
const struct pmu *pmu_found(void);
/* The registers that the measurements change, and LVTPC; each where there is one. */
void pmu_save(void);
void pmu_restore(void);

/* NULL: there is an LVTPC to be measured; else what is missing. */
const char *lvtpc_why_not(void);
uint32_t lvtpc_read(void);
void lvtpc_write(uint32_t value);
/* LVTPC and ICR as an instruction reaches them: an MSR in x2APIC mode, else an address. */
#define X2APIC_LVTPC 0x834
#define X2APIC_ICR 0x830
volatile uint32_t *xapic_lvtpc(void);
/* The value that sends this processor an NMI, in `*low` and `*high`; xAPIC mode: the high half is
 * in its register already. */
volatile uint32_t *self_nmi_prepare(uint32_t *low, uint32_t *high);

/* ---- loops.c: one instruction, many times ---- */

/* What the registers hold at the loop's start, and what comes out. The order is loops.c's. */
struct loop {
    uint64_t rax, rbx, rcx, rdx;
    uint64_t operations;
    uint64_t begin, end; /* TSC */
};
typedef void (*loop_function)(struct loop *loop);

void loop_empty(struct loop *loop);
void loop_rdmsr(struct loop *loop);
void loop_wrmsr(struct loop *loop);
void loop_empty_xor(struct loop *loop); /* EAX changes by RBX in each turn */
void loop_wrmsr_xor(struct loop *loop);
void loop_rdpmc(struct loop *loop);
/* LBR_PLACES records: RCX is the first one's FROM, RBX what TO is away from FROM, RAX INFO from TO.
 */
void loop_records(struct loop *loop);
void loop_store(struct loop *loop); /* EAX to the address in RDX */
void loop_in_8(struct loop *loop);
void loop_in_16(struct loop *loop);
void loop_in_32(struct loop *loop);
void loop_out_8(struct loop *loop);
void loop_out_16(struct loop *loop);
void loop_out_32(struct loop *loop);
/* These set registers in the loop, because the instruction changes them. */
void loop_empty_rax(struct loop *loop);
void loop_cpuid(struct loop *loop);
void loop_vmcall(struct loop *loop);
void loop_vmcall_rbx(struct loop *loop);

/* ---- report.c: items, and their lines ---- */

struct item {
    const char *experiment, *name;
    const char *base; /* NULL: none */
    uint32_t region;  /* 0: none */
};

/* RUNS timed runs of the loop, one marked pass, one line. `loop` holds the registers. */
void item_loop(const struct item *item, loop_function function, const struct loop *loop);
/* The same step by step, where no line can be printed between: the passes from 0 on, in order. */
uint32_t item_passes(void);
void item_pass(const struct item *item, loop_function function, const struct loop *loop,
               uint32_t number);
void item_print_loop(const struct item *item);
/* An item of one event: `samples` of it. */
void item_latency(const struct item *item, uint64_t *samples, size_t n);
/* `samples` of a count. */
void item_counts(const struct item *item, const char *metric, uint64_t *samples, size_t n);
void item_count(const struct item *item, const char *metric, uint64_t value);
void item_skip(const struct item *item, const char *why);
uint32_t runs_wanted(void);
uint32_t operations_wanted(void);
extern uint64_t measure_samples[MEASURE_RUNS_MAX];

/* ---- run.c ---- */

/* Before each item: lets the host's interrupts in. False: something else has the PMU now; the
 * item's line says so. */
bool item_ready(const struct item *item);
/* item_loop() of an item that is ready. */
void measure_loop(const struct item *item, loop_function function, const struct loop *loop);

/* ---- nmi.c: the handlers, and waiting for an NMI ---- */

/* What the next NMIs do; NULL: they are strays. */
extern void (*volatile measure_nmi_action)(void);
/* The gate's handlers: one calls the action, one takes time stamps, one reads counter 0 besides,
 * one marks regions. */
extern const char measure_nmi_call[], measure_nmi_stamp[], measure_nmi_overflow[];
extern const char measure_nmi_mark[];
extern uint64_t measure_nmi_strays;
/* NMIs are for that handler; and for the host's again. An NMI that nothing here waited for may have
 * been somebody else's (in Linux: a backtrace, a crash): the host's handlers are given one NMI in
 * its place, so that they look. */
void nmi_take(const void *handler);
void nmi_give_back(void);

/* Time stamps (the TSC's low half) around one NMI. */
struct stamps {
    uint32_t last;  /* before the NMI: in each turn of the waiting loop, or right before the send */
    uint32_t first; /* the handler's, after ENDBR64 and two PUSHes */
    uint32_t leave; /* the handler's last, before a MOV and IRET */
    uint32_t back;  /* the first instruction after IRET */
    uint32_t events; /* measure_nmi_overflow: counter 0's low half, before the handler's branches */
};
extern struct stamps measure_stamps;

/* Each waits for an NMI at most that many turns: 1 when it came. Handler: measure_nmi_stamp, or
 * measure_nmi_overflow for an overflow. The resolution of an overflow's stamp is one turn: RDTSC,
 * MOV, DEC, JNZ. Sending is a MOV to the ICR's low half, or two MOVs and WRMSR. */
uint64_t wait_overflow(uint64_t turns);
uint64_t wait_sent_xapic(uint64_t turns, volatile uint32_t *icr, uint32_t low);
uint64_t wait_sent_x2apic(uint64_t turns, uint32_t msr, uint32_t low, uint32_t high);
/* The same inside two regions, for the ledger; handler: measure_nmi_mark. `there` has what causes
 * the NMI (one JMP that overflows counter 0, which holds -1; or the send) and six instructions of
 * the handler; `back` has IRET and one more. */
uint64_t mark_overflow(uint64_t turns, uint32_t there, uint32_t back);
uint64_t mark_sent_xapic(uint64_t turns, uint32_t there, uint32_t back, volatile uint32_t *icr,
                         uint32_t low);
uint64_t mark_sent_x2apic(uint64_t turns, uint32_t there, uint32_t back, uint32_t msr, uint32_t low,
                          uint32_t high);
/* Sends this processor an NMI and waits until its action has run; false: it did not come. */
bool nmi_run(void (*action)(void));

/* ---- the experiments ---- */

void measure_msr(void);
void measure_exit(void);
void measure_pmi(void);
void measure_a1k(void);

/* Regions of the ledger: from each of these on, in the order of an experiment's items. */
enum measure_region {
    REGION_MSR_FIRST = 2000,
    REGION_EXIT_FIRST = 2050,
    REGION_PMI_FIRST = 2100,
    REGION_A1K_FIRST = 2150,
};
