/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One struct per processor, reached by GS in root mode. Other mutable state is the log, the page
 * pool, and the list of the processors with their end (vmx/root/end.c). The exit path writes none
 * of it, so no line of it is ever shared between processors.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What all code of root mode works with. */
#include "boot_info.h"
#include "console/log.h"
#include "mm/mm.h"
#include "msr.h"
#include "vmx.h"
#include "vmx/vmcs.h"
#include "x86.h"

/* General-purpose registers in the order in which the processor numbers them (SDM Vol. 3, "Exit
 * Qualification for Control-Register Accesses"), so that a number from hardware is an index. */
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

/* How IA32_PERF_GLOBAL_CTRL changes hands at exits and entries, best first. */
enum global_ctrl_switch {
    GLOBAL_CTRL_NONE,       /* pmu=off */
    GLOBAL_CTRL_CONTROLS,   /* load and save controls: the processor does it all */
    GLOBAL_CTRL_STORE_LIST, /* load controls; the exit MSR-store list saves the guest's value */
    GLOBAL_CTRL_LISTS,      /* no controls: MSR-load and MSR-store lists */
};

/* An entry of an MSR area (SDM Vol. 3, "VM-Exit Controls for MSRs"). */
struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
} __attribute__((aligned(16)));
_Static_assert(sizeof(struct msr_entry) == 16, "SDM: 16 bytes an entry");

/* The entries of the PMU's MSR lists. */
enum pmu_list_entry { PMU_LIST_GLOBAL_CTRL, PMU_LIST_PEBS_ENABLE, PMU_LIST };

/* How host work records branches, see pmu/branch_records.c. */
struct branch_records {
    uint32_t control, from; /* the MSR that turns them on and off, and the first record's FROM */
    uint64_t on;            /* 0 is off */
};

struct cpu_pmu {
    enum global_ctrl_switch global_ctrl;
    uint64_t global_ctrl_valid;       /* bits that the processor has, for policy=intercept */
    uint64_t global_ctrl_loaded;      /* the value the VMCS will load at the next entry */
    struct pmu_registers *registers;  /* which ones a full switch takes, see pmu/pmu_context.c */
    struct pmu_context *guest, *host; /* where the PMU of one is while the other uses it */
    bool status_set;             /* IA32_PERF_GLOBAL_STATUS_SET is there: version 4 and later */
    bool can_work;               /* the registers that host work writes are all there */
    struct host_work *host_work; /* not NULL while the host uses the PMU */
    unsigned trapped;            /* so many first rows of pmu/pmu_registers.c exit */
    const struct branch_records *records; /* NULL: none that are known here */
    bool pebs_switched;                   /* PEBS is not isolated, see pmu/pebs.c */
    /* Stored at exit and loaded at entry; loaded at exit: as far as they are needed. */
    struct msr_entry guest_list[PMU_LIST], host_list[PMU_LIST];
};

/* Who can raise an NMI for the host, in the order in which they are asked. */
enum nmi_source { SOURCE_HOST_PMI, SOURCE_BACKTRACE, SOURCE_PLATFORM, SOURCE_COUNT };

struct nmi_source_count {
    uint64_t raised; /* by a sender here; what hardware raises is not known before it is handled */
    /* By enum nmi_found: claimed by the root NMI handler, or at an NMI exit; taken by the guest and
     * found at a later exit; handed back by the guest's hypercall. */
    uint64_t found[3];
};

struct cpu_nmi {
    bool can_trap;    /* the processor has NMI exiting, virtual NMIs and NMI-window exiting */
    bool passthrough; /* NMI exiting is off: the guest takes its NMIs without an exit */
    bool due;         /* passthrough off: a virtual NMI waits for the guest's NMI window */
    bool hold, held; /* host work: an NMI of the guest's waits in held, root mode stays unblocked */

    uint32_t notes; /* everything that is under way: NOTE_* in nmi/notes.h */
    /* What an exit looks at; a bit is 0 where its step is switched off. */
    uint32_t notes_mask, unblock_mask; /* of notes; of the guest's interruptibility state */

    bool guest_started;    /* false before the first entry, and while it waits for a SIPI */
    uint64_t before_guest; /* NMIs in root mode meanwhile: nobody's */

    uint64_t exits, injected; /* NMIs that exited; virtual NMIs given to the guest */
    uint64_t root, forwarded; /* NMIs taken in root mode; of these, sent to the guest again */
    uint64_t dropped;   /* of these, lost to both: the local APIC was globally disabled or stuck */
    uint64_t unblocked; /* exits with NMIs blocked, ended by the IRET helper */
    struct nmi_source_count source[SOURCE_COUNT];
    uint64_t backtrace_rip; /* where the last backtrace request found this processor */
    bool backtrace_in_root;
};

/* What apic=trap needs, see vmx/exit/apic_trap.c. */
#define GUEST_WINDOWS 8
struct cpu_apic {
    uint64_t page; /* of the xAPIC's registers, not mapped for the guest; 0 with apic=pass */
    struct host_window window[GUEST_WINDOWS]; /* onto its page tables and code */
};

struct cpu;
typedef void (*exit_handler)(struct cpu *cpu);
typedef int64_t (*hypercall)(struct cpu *cpu);

/* What is done to one CPUID leaf, see vmx/exit/cpuid.c. */
struct cpuid_filter;
#define CPUID_LEAVES 64
#define CPUID_SUBLEAVES 3 /* 0, 1, and all others */

#define STACK_PAGES 4

/* What follows it in memory is the experiments' (experiment.h). */
struct cpu {
    struct cpu *self;        /* GS:0 */
    uint64_t gpr[GPR_COUNT]; /* the guest's registers while in root mode; RSP lives in the VMCS */

    exit_handler handlers[EXIT_REASON_COUNT + 1]; /* the last for every number past the table */
    uint64_t exits[EXIT_REASON_COUNT + 1];
    uint64_t exit_cycles[EXIT_REASON_COUNT]; /* stats=cycles only */
    uint64_t refused;                        /* what the guest tried in vain, see worth_a_line() */

    uint32_t mitigations; /* MITIGATION bits of hypercall.h */
    uint32_t spec_ctrl;   /* the guest's IA32_SPEC_CTRL, with MITIGATION_IBRS */
    uint32_t blocking;    /* the guest's interruptibility state at the last exit */

    const struct boot_info *boot;
    uint64_t cr4_refused;           /* bits that stay 0 for the guest, see CR4_HIDDEN */
    uint64_t cr0_asked, cr0_shadow; /* what the guest writes, and CR0's read shadow before: cr.c */
    uint64_t rtit_ctl;              /* the guest's IA32_RTIT_CTL, while it waits for a SIPI */
    bool sipi_taken;       /* a SIPI has started it, and it has not executed an instruction since */
    uint8_t cpuid_count;   /* filters in use */
    uint8_t cpuid_highest; /* place of the highest basic leaf's */
    uint64_t cpuid_extended; /* the number of the highest extended leaf, from 0 */
    hypercall calls[32];     /* by number, a power of two of them; NULL: not offered */
    uint32_t hypercalls;     /* of each that is offered a bit, as leaf 0x40000001 says */
    uint32_t hypervisor_bit; /* CPUID_1_ECX_HYPERVISOR, or 0 with hypervisor_bit=off */
    struct cpuid_filter *cpuid_filters;
    /* Of each leaf and subleaf; a leaf's take a power of two, so that finding one takes a shift. */
    struct cpuid_filter *cpuid_filter[CPUID_LEAVES][CPUID_SUBLEAVES + 1];

    bool ticking;
    uint64_t tsc_khz;                    /* 0: not known, or nothing asks for it */
    uint64_t tick_branches, tick_period; /* host work that waits for the tick; 0: none */

    uint32_t apic_id;
    bool in_vmx;   /* VMX operation */
    bool starting; /* by another one: a fault ends this one alone */
    bool ended;    /* stopped by another one, which reads where (cpu_nmi.backtrace_rip) */
    uint32_t
        sipi; /* waits in root mode for one, see vmx/exit/init_sipi.c; other processors write it */
    uint64_t ept_root, host_cr3;
    void *vmxon_region, *vmcs, *msr_bitmap, *io_bitmaps;
    /* The tops of its stacks, each of STACK_PAGES with a guard page below. */
    uint64_t root_stack, fault_stack, nmi_stack;

    struct cpu_pmu pmu;
    struct cpu_nmi nmi;
    struct cpu_apic apic;
};

/* Whether a refusal may be logged: a line costs a millisecond and more in root mode, and a guest
 * may try in a loop. */
#define REFUSALS_LOGGED 16
static inline bool worth_a_line(struct cpu *cpu) { return cpu->refused++ < REFUSALS_LOGGED; }

/* This processor's struct. Root mode only. */
static inline struct cpu *this_cpu(void)
{
    struct cpu *cpu;
    __asm__("mov %%gs:0, %0" : "=r"(cpu));
    return cpu;
}
