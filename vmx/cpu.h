/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state of one processor, in one struct. Root mode finds its processor's struct through GS.
 * Besides these structs, only the log, the page pool, and the list of processors with the flags for
 * their end (vmx/root/end.c) change at run time. The exit path does not write them, so exits never
 * make two processors compete for a cache line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The headers that all root-mode code uses. */
#include "boot_info.h"
#include "console/log.h"
#include "mm/mm.h"
#include "msr.h"
#include "vmx.h"
#include "vmx/vmcs.h"
#include "x86.h"

/* General-purpose registers, numbered as the processor numbers them (SDM Vol. 3, "Exit
 * Qualification for Control-Register Accesses"). So a register number from the hardware is an index
 * into `gpr`. */
enum gpr {
    GPR_RAX,
    GPR_RCX,
    GPR_RDX,
    GPR_RBX,
    GPR_RSP,
    GPR_RBP,
    GPR_RSI,
    GPR_RDI,
    GPR_R8,
    GPR_R9,
    GPR_R10,
    GPR_R11,
    GPR_R12,
    GPR_R13,
    GPR_R14,
    GPR_R15,
    GPR_COUNT
};

/* How exits and entries switch IA32_PERF_GLOBAL_CTRL, best first. */
enum global_ctrl_switch {
    GLOBAL_CTRL_NONE,       /* pmu=off */
    GLOBAL_CTRL_CONTROLS,   /* load and save controls: the processor does everything */
    GLOBAL_CTRL_STORE_LIST, /* load controls; the exit MSR-store list saves the guest's value */
    GLOBAL_CTRL_LISTS,      /* no controls: MSR-load and MSR-store lists */
};

/* An entry of an MSR area (SDM Vol. 3, "VM-Exit Controls for MSRs"). */
struct msr_entry {
    uint32_t index; /* the MSR's number */
    uint32_t reserved;
    uint64_t value;
} __attribute__((aligned(16)));
_Static_assert(sizeof(struct msr_entry) == 16, "SDM: 16 bytes an entry");

/* The entries of the PMU's MSR lists. */
enum pmu_list_entry { PMU_LIST_GLOBAL_CTRL, PMU_LIST_PEBS_ENABLE, PMU_LIST };

/* The branch records that host work uses, see pmu/branch_records.c. */
struct branch_records {
    uint32_t control; /* the MSR that turns branch records on and off */
    uint32_t from;    /* the MSR with the source address (FROM) of the first record */
    uint64_t on;      /* the value of `control` that turns branch records on; 0 turns them off */
};

struct cpu_pmu {
    enum global_ctrl_switch global_ctrl;
    uint64_t global_ctrl_valid;      /* the bits that exist; set only with policy=intercept */
    uint64_t global_ctrl_loaded;     /* guest_list's value at the last pmu_reload_global_ctrl() */
    struct pmu_registers *registers; /* the registers of a full switch, see pmu/pmu_context.c */
    struct pmu_context *guest;       /* the guest's registers while the host uses the PMU */
    struct pmu_context *host;        /* the host's registers while the guest uses the PMU */
    bool status_set;                 /* IA32_PERF_GLOBAL_STATUS_SET exists (PMU version 4 and up) */
    bool can_run_host_work;          /* the processor has every register that host work writes */
    struct host_work *host_work;     /* not NULL while the host uses the PMU */
    unsigned trapped; /* the number of leading rows of pmu/pmu_registers.c that exit */
    const struct branch_records *records; /* NULL: PMUvisor knows no records here */
    bool pebs_switched; /* PEBS is not isolated, so MSR lists switch it: see pmu/pebs.c */
    /* The MSR lists. The VMCS points only to the entries that this processor needs. */
    struct msr_entry guest_list[PMU_LIST]; /* stored at exits and loaded at entries */
    struct msr_entry host_list[PMU_LIST];  /* loaded at exits */
};

/* The sources of host NMIs, in the order in which nmi_claim() asks them. */
enum nmi_source { SOURCE_HOST_PMI, SOURCE_BACKTRACE, SOURCE_PLATFORM, SOURCE_COUNT };

struct nmi_source_count {
    uint64_t raised; /* NMIs that software sent here; those from hardware count in `found` only */
    /* Indexed by enum nmi_found. FOUND_IN_ROOT: claimed in root mode's NMI handler or at an NMI
     * exit. FOUND_LATE: taken by the guest, and found at a later exit. FOUND_RETURNED: taken by the
     * guest, and handed back by its hypercall. */
    uint64_t found[3];
};

struct cpu_nmi {
    bool can_trap;    /* the processor has NMI exiting, virtual NMIs and NMI-window exiting */
    bool passthrough; /* NMI exiting is off: the guest takes its NMIs without an exit */
    bool due;         /* passthrough off: a virtual NMI waits for the guest's NMI window */
    bool hold;        /* host work runs, with NMIs unblocked: NMIs for the guest wait in `held` */
    bool held;        /* an NMI for the guest waits for the end of host work */

    uint32_t notes; /* the NMI work that is under way: NOTE_* bits of nmi/notes.h */
    /* Masks of the bits that an exit checks. Turning off a bookkeeping step clears the step's
     * bits. */
    uint32_t notes_mask;   /* bits of `notes` */
    uint32_t unblock_mask; /* bits of the guest's interruptibility state */

    bool guest_started;    /* false before the first entry and while the guest waits for a SIPI */
    uint64_t before_guest; /* NMIs that nobody gets: taken while guest_started is false */

    uint64_t exits;     /* NMIs that exited */
    uint64_t injected;  /* virtual NMIs injected into the guest */
    uint64_t root;      /* NMIs taken in root mode */
    uint64_t forwarded; /* NMIs taken in root mode and sent to the guest again */
    uint64_t dropped;   /* NMIs for the guest, lost in root mode: the local APIC could not send, or
                           the bookkeeping step `skid` is off */
    uint64_t unblocked; /* exits inside the guest's NMI handler that unblocked NMIs in root mode */
    struct nmi_source_count source[SOURCE_COUNT];
    uint64_t backtrace_rip; /* where the last backtrace request found this processor */
    bool backtrace_in_root; /* backtrace_rip is in root mode */
};

/* The state of apic=trap, see vmx/exit/apic_trap.c. */
#define GUEST_WINDOWS 8
struct cpu_apic {
    uint64_t page; /* address of the xAPIC's registers, not mapped for the guest; 0: apic=pass */
    struct host_window window[GUEST_WINDOWS]; /* windows onto the guest's page tables and code */
};

/* The guest's control registers, see vmx/exit/cr.c. */
struct cpu_cr {
    uint64_t cr4_refused; /* bits that stay 0 for the guest, see CR4_HIDDEN */
    uint64_t cr0_asked;   /* the value that the guest's MOV writes to CR0 */
    uint64_t cr0_shadow;  /* CR0's read shadow before this MOV */
};

/* The guest's wait for a SIPI, see vmx/exit/init_sipi.c. */
struct cpu_sipi {
    uint64_t rtit_ctl; /* the guest's IA32_RTIT_CTL during the wait */
    bool taken;        /* a SIPI ended the wait, and no guest instruction has run since then */
};

/* The hypervisor's tick, see vmx/exit/tick.c. */
struct cpu_tick {
    bool runs;         /* the tick runs on this processor */
    uint64_t branches; /* branches of the host work that waits for the next tick; 0: none */
    uint64_t period;   /* the PMI period of that work, in branches */
};

struct cpu;
typedef void (*exit_handler)(struct cpu *cpu);
typedef int64_t (*hypercall)(struct cpu *cpu);

/* The changes to the answer for one CPUID leaf, see vmx/exit/cpuid.c. */
struct cpuid_filter {
    uint32_t keep[4]; /* bits of EAX, EBX, ECX and EDX that the guest sees */
    uint32_t add_ecx; /* bits of ECX that are 1 for the guest in any case */
};
#define CPUID_LEAVES 64
#define CPUID_SUBLEAVES 3 /* 0, 1, and all others */
struct cpu_cpuid {
    uint32_t highest;        /* the highest basic leaf that has a place in `filters` */
    uint32_t extended;       /* the highest extended leaf, minus 80000000H */
    uint32_t hypervisor_bit; /* CPUID_1_ECX_HYPERVISOR, or 0 with hypervisor_bit=off */
    struct cpuid_filter filters[CPUID_LEAVES][CPUID_SUBLEAVES];
};

#define STACK_PAGES 4

/* The experiments' own state follows this struct in memory (experiment.h). */
struct cpu {
    struct cpu *self;        /* GS:0 */
    uint64_t gpr[GPR_COUNT]; /* the guest's registers while in root mode; RSP is in the VMCS */

    exit_handler handlers[EXIT_REASON_COUNT + 1]; /* the last row is for reasons past the table */
    uint64_t exits[EXIT_REASON_COUNT + 1];        /* counts of exits, indexed like `handlers` */
    uint64_t exit_cycles[EXIT_REASON_COUNT];      /* only with stats=cycles */
    uint64_t refused; /* attempts of the guest that were refused, see may_log_refusal() */

    bool power_off_reported; /* see vmx/exit/io.c */

    uint32_t mitigations; /* MITIGATION bits of hypercall.h */
    uint32_t spec_ctrl;   /* the guest's IA32_SPEC_CTRL during an exit; only with MITIGATION_IBRS */
    uint32_t blocking;    /* the guest's interruptibility state at the last exit */

    const struct boot_info *boot;
    struct cpu_cr cr;
    struct cpu_sipi sipi;
    struct cpu_cpuid cpuid;
    hypercall calls[32]; /* indexed by number; the size is a power of two; NULL: not offered */
    uint32_t hypercalls; /* a bit for each hypercall offered, as leaf 0x40000001 reports it */

    uint64_t tsc_khz; /* 0: unknown, or nothing needs it */
    struct cpu_tick tick;

    uint32_t apic_id;
    bool in_vmx;   /* the processor is in VMX operation */
    bool starting; /* another processor is starting this one, so a fault ends only this one */
    bool ended;    /* this processor was stopped; backtrace_rip says where it was */
    uint64_t ept_root;
    uint64_t host_cr3;
    void *vmxon_region;
    void *vmcs;
    void *msr_bitmap;
    void *io_bitmaps; /* two pages: A and B */
    /* The tops of the stacks. Each stack has STACK_PAGES, and a guard page below. */
    uint64_t root_stack;
    uint64_t fault_stack;
    uint64_t nmi_stack;

    struct cpu_pmu pmu;
    struct cpu_nmi nmi;
    struct cpu_apic apic;
};

/* Counts a refusal, and returns whether to log it. Only the first refusals are logged, because a
 * line in the log costs a millisecond or more in root mode, and a guest may try again in a loop. */
#define REFUSALS_LOGGED 16
static inline bool may_log_refusal(struct cpu *cpu) { return cpu->refused++ < REFUSALS_LOGGED; }

/* Returns this processor's struct. Root mode only. */
static inline struct cpu *this_cpu(void)
{
    struct cpu *cpu;
    __asm__("mov %%gs:0, %0" : "=r"(cpu));
    return cpu;
}
