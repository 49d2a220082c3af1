/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's CPUID: the processor's own, less what one table hides, plus the hypervisor leaves.
 * A feature is hidden where VMX does not switch its state, or does not give the guest its
 * instructions, on this processor. SDM Vol. 2, "CPUID"; Vol. 3, "Changes to Instruction Behavior".
 */
#include "exit.h"

#include "capability.h"
#include "cr.h"
#include "hypercall.h"
#include "inject.h"
#include "mm.h"
#include "vmx.h"
#include "x86.h"

#define LEAF_FEATURES 1
#define LEAF_EXTENDED_FEATURES 7
#define LEAF_PMU 0x0a
#define LEAF_XSAVE 0x0d
#define LEAF_PMU_EXTENDED 0x23
#define LEAF_EXTENDED_1 0x80000001u
/* The last slot is that of leaf 80000001H, one before it serves all leaves without a filter. */
#define SLOT_EXTENDED_1 (CPUID_SLOTS - 1)
#define SLOT_NONE (CPUID_SLOTS - 2)
#define ANY_SUBLEAF ~0u
#define LEAF_1_ECX_HYPERVISOR BIT(31)
#define LEAF_1_ECX_OSXSAVE BIT(27)
#define LEAF_7_ECX_OSPKE BIT(4)

/* IA32_XSS (SDM Vol. 1, "XSAVE-Supported Features and State-Component Bitmaps") */
#define XSS_PT BIT(8)
#define XSS_CET (BIT(11) | BIT(12)) /* user and supervisor */
#define XSS_UINTR BIT(14)
#define XSS_LBR BIT(15)

#define HYPERVISOR_LEAVES 0x10000000u /* 0x40000000 .. 0x4fffffff are never hardware's */

enum reg { EAX, EBX, ECX, EDX };

/* What must be there for the bits to be shown. */
enum condition {
    NEVER,
    WITH_RDTSCP,
    WITH_INVPCID,
    WITH_XSAVES,
    WITH_USER_WAIT,
    WITH_BNDCFGS,
    WITH_CET,
    WITH_LBR_CTL,
    WITH_PMU,
    WITHOUT_TICK,
};

struct cpuid_row {
    uint32_t leaf, subleaf;
    enum reg reg;
    uint32_t hidden;
    enum condition condition;
};

static const struct cpuid_row rows[] = {
    /* Nested virtualization is not offered. */
    {LEAF_FEATURES, ANY_SUBLEAF, ECX, BIT(5) /* VMX */, NEVER},
    /* GETSEC always exits and is answered with #UD. */
    {LEAF_FEATURES, ANY_SUBLEAF, ECX, BIT(6) /* SMX */, NEVER},
    /* pmu=off: no PDCM, DS, DTES64, DS-CPL, and empty leaves 0AH and 23H. */
    {LEAF_FEATURES, ANY_SUBLEAF, ECX, BIT(15) | BIT(2) | BIT(4), WITH_PMU},
    {LEAF_FEATURES, ANY_SUBLEAF, EDX, BIT(21), WITH_PMU},
    {LEAF_PMU, ANY_SUBLEAF, EAX, ~0u, WITH_PMU},
    {LEAF_PMU, ANY_SUBLEAF, EBX, ~0u, WITH_PMU},
    {LEAF_PMU, ANY_SUBLEAF, ECX, ~0u, WITH_PMU},
    {LEAF_PMU, ANY_SUBLEAF, EDX, ~0u, WITH_PMU},
    {LEAF_EXTENDED_FEATURES, 1, EAX, BIT(8) /* leaf 23H */, WITH_PMU},
    {LEAF_PMU_EXTENDED, ANY_SUBLEAF, EAX, ~0u, WITH_PMU},
    {LEAF_PMU_EXTENDED, ANY_SUBLEAF, EBX, ~0u, WITH_PMU},
    {LEAF_PMU_EXTENDED, ANY_SUBLEAF, ECX, ~0u, WITH_PMU},
    {LEAF_PMU_EXTENDED, ANY_SUBLEAF, EDX, ~0u, WITH_PMU},
    /* The tick stops in the deep C-states that MWAIT reaches; HLT stays. */
    {LEAF_FEATURES, ANY_SUBLEAF, ECX, BIT(3) /* MONITOR */, WITHOUT_TICK},
    /* The EPC is not in the guest's map, and ENCLS exits. */
    {LEAF_EXTENDED_FEATURES, 0, EBX, BIT(2) /* SGX */, NEVER},
    {LEAF_EXTENDED_FEATURES, 0, ECX, BIT(30) /* SGX_LC */, NEVER},
    {LEAF_EXTENDED_FEATURES, 0, EDX, BIT(1) /* SGX_KEYS */, NEVER},
    {0x12, ANY_SUBLEAF, EAX, ~0u, NEVER},
    {0x12, ANY_SUBLEAF, EBX, ~0u, NEVER},
    {0x12, ANY_SUBLEAF, ECX, ~0u, NEVER},
    {0x12, ANY_SUBLEAF, EDX, ~0u, NEVER},
    /* Without the secondary control the instruction is #UD in the guest. */
    {LEAF_EXTENDED_FEATURES, 0, EBX, BIT(10) /* INVPCID */, WITH_INVPCID},
    {LEAF_EXTENDED_FEATURES, 0, ECX, BIT(5) /* WAITPKG */, WITH_USER_WAIT},
    {LEAF_EXTENDED_FEATURES, 0, ECX, BIT(22) /* RDPID */, WITH_RDTSCP},
    {LEAF_EXTENDED_1, ANY_SUBLEAF, EDX, BIT(27) /* RDTSCP */, WITH_RDTSCP},
    {LEAF_XSAVE, 1, EAX, BIT(3) /* XSAVES */, WITH_XSAVES},
    /* "Enable PCONFIG" stays 0. */
    {LEAF_EXTENDED_FEATURES, 0, EDX, BIT(18) /* PCONFIG */, NEVER},
    {0x1b, ANY_SUBLEAF, EAX, ~0u, NEVER},
    {0x1b, ANY_SUBLEAF, EBX, ~0u, NEVER},
    {0x1b, ANY_SUBLEAF, ECX, ~0u, NEVER},
    {0x1b, ANY_SUBLEAF, EDX, ~0u, NEVER},
    /* "Enable MSR-list instructions" is a tertiary control that is not used. */
    {LEAF_EXTENDED_FEATURES, 1, EAX, BIT(27) /* MSRLIST */, NEVER},
    /* With BNDCFGS left on, root-mode branches would reset the guest's bounds. */
    {LEAF_EXTENDED_FEATURES, 0, EBX, BIT(14) /* MPX */, WITH_BNDCFGS},
    /* S_CET, SSP and the SSP table are switched only by the CET controls. */
    {LEAF_EXTENDED_FEATURES, 0, ECX, BIT(7) /* CET_SS */, WITH_CET},
    {LEAF_EXTENDED_FEATURES, 0, EDX, BIT(20) /* CET_IBT */, WITH_CET},
    /* Else root-mode branches would be recorded in the guest's LBR stack. */
    {LEAF_EXTENDED_FEATURES, 0, EDX, BIT(19) /* ARCH_LBR */, WITH_LBR_CTL},
    {0x1c, ANY_SUBLEAF, EAX, ~0u, WITH_LBR_CTL},
    {0x1c, ANY_SUBLEAF, EBX, ~0u, WITH_LBR_CTL},
    {0x1c, ANY_SUBLEAF, ECX, ~0u, WITH_LBR_CTL},
    /* Where VMX allows it at all, tracing records root mode and writes past the EPT, unless three
     * controls are used together, which no machine at hand could test. */
    {LEAF_EXTENDED_FEATURES, 0, EBX, BIT(25) /* Intel PT */, NEVER},
    {0x14, ANY_SUBLEAF, EAX, ~0u, NEVER},
    {0x14, ANY_SUBLEAF, EBX, ~0u, NEVER},
    {0x14, ANY_SUBLEAF, ECX, ~0u, NEVER},
    /* State that VMX has no fields for, and CR4 bits that are not given to the guest (cr.c). */
    {LEAF_EXTENDED_FEATURES, 0, ECX, BIT(23) /* KL */, NEVER},
    {0x19, ANY_SUBLEAF, EAX, ~0u, NEVER},
    {0x19, ANY_SUBLEAF, EBX, ~0u, NEVER},
    {0x19, ANY_SUBLEAF, ECX, ~0u, NEVER},
    {LEAF_EXTENDED_FEATURES, 0, EDX, BIT(5) /* UINTR */, NEVER},
    {LEAF_EXTENDED_FEATURES, 1, EAX, BIT(17) /* FRED */, NEVER},
    /* Supervisor state of hidden features, which XRSTORS would load past the MSR bitmap. */
    {LEAF_XSAVE, 1, ECX, (uint32_t)(XSS_PT | XSS_UINTR), NEVER},
    {LEAF_XSAVE, 1, ECX, (uint32_t)XSS_CET, WITH_CET},
    {LEAF_XSAVE, 1, ECX, (uint32_t)XSS_LBR, WITH_LBR_CTL},
    /* Their exits have reasons of their own and are answered with #UD. */
    {LEAF_EXTENDED_FEATURES, 1, ECX, BIT(5) /* immediate RDMSR and WRMSRNS */, NEVER},
    {LEAF_EXTENDED_FEATURES, 1, EDX, BIT(15) /* URDMSR and UWRMSR */, NEVER},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* What is done to the four registers. The first filter changes nothing, so that the exit path has
 * no case for leaves without one. */
struct cpuid_filter {
    uint32_t keep[4];
    uint32_t add[4];
};
#define FILTERS_MAX (PAGE_SIZE / sizeof(struct cpuid_filter))
_Static_assert(ROWS + 3 <= FILTERS_MAX, "the filters fit one page even with one a row");

static bool condition_met(enum condition condition, const struct cpu *cpu,
                          const uint32_t *controls)
{
    uint32_t secondary = controls[SET_SECONDARY];

    switch (condition) {
    case WITH_RDTSCP:
        return secondary & SECONDARY_ENABLE_RDTSCP;
    case WITH_INVPCID:
        return secondary & SECONDARY_ENABLE_INVPCID;
    case WITH_XSAVES:
        return secondary & SECONDARY_ENABLE_XSAVES;
    case WITH_USER_WAIT:
        return secondary & SECONDARY_ENABLE_USER_WAIT;
    case WITH_BNDCFGS:
        return controls[SET_ENTRY] & ENTRY_LOAD_BNDCFGS;
    case WITH_CET:
        return controls[SET_ENTRY] & ENTRY_LOAD_CET;
    case WITH_LBR_CTL:
        return controls[SET_ENTRY] & ENTRY_LOAD_LBR_CTL;
    case WITH_PMU:
        return cpu->boot->options.pmu;
    case WITHOUT_TICK:
        return cpu->boot->options.tick_ms == 0;
    default:
        return false;
    }
}

uint64_t cpuid_hidden_xss(const uint32_t *controls)
{
    return XSS_PT | XSS_UINTR | (controls[SET_ENTRY] & ENTRY_LOAD_CET ? 0 : XSS_CET) |
           (controls[SET_ENTRY] & ENTRY_LOAD_LBR_CTL ? 0 : XSS_LBR);
}

static unsigned slot_of(uint32_t leaf)
{
    if (leaf < SLOT_NONE)
        return leaf;
    return leaf == LEAF_EXTENDED_1 ? SLOT_EXTENDED_1 : SLOT_NONE;
}

/* Subleaves 0 and 1 have filters of their own, all others share one. */
static unsigned row_of(uint32_t subleaf)
{
    return subleaf < CPUID_SUBLEAVES - 1 ? subleaf : CPUID_SUBLEAVES - 1;
}

/* The filter of (leaf, subleaf), made when it is not there yet. */
static struct cpuid_filter *filter_of(struct cpu *cpu, uint32_t leaf, unsigned row)
{
    uint8_t *slot = &cpu->cpuid_slot[row][slot_of(leaf)];

    if (*slot == 0) {
        *slot = cpu->cpuid_count++;
        for (unsigned reg = 0; reg < 4; reg++)
            cpu->cpuid_filters[*slot].keep[reg] = ~0u;
    }
    return &cpu->cpuid_filters[*slot];
}

static void hide(struct cpu *cpu, const struct cpuid_row *row)
{
    for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
        if (row->subleaf == ANY_SUBLEAF || row->subleaf == r)
            filter_of(cpu, row->leaf, r)->keep[row->reg] &= ~row->hidden;
}

/* The bits that follow the guest's CR4, which are root mode's in what CPUID gave. */
void cpuid_follow_cr4(struct cpu *cpu)
{
    uint64_t cr4 = cpu->guest_cr4_tracked;
    uint32_t osxsave = cr4 & CR4_OSXSAVE ? LEAF_1_ECX_OSXSAVE : 0;
    uint32_t ospke = cr4 & CR4_PKE ? LEAF_7_ECX_OSPKE : 0;

    for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
        filter_of(cpu, LEAF_FEATURES, r)->add[ECX] = LEAF_1_ECX_HYPERVISOR | osxsave;
    filter_of(cpu, LEAF_EXTENDED_FEATURES, 0)->add[ECX] = ospke;
}

bool cpuid_setup(struct cpu *cpu, const uint32_t *controls)
{
    static const struct cpuid_row followed[] = {
        {LEAF_FEATURES, ANY_SUBLEAF, ECX, LEAF_1_ECX_OSXSAVE, NEVER},
        {LEAF_EXTENDED_FEATURES, 0, ECX, LEAF_7_ECX_OSPKE, NEVER},
    };

    cpu->cpuid_filters = page_alloc(1);
    if (cpu->cpuid_filters == NULL)
        return false;
    for (unsigned reg = 0; reg < 4; reg++)
        cpu->cpuid_filters[0].keep[reg] = ~0u;
    cpu->cpuid_count = 1;
    cpu->hypercalls = hypercalls_offered();
    for (unsigned i = 0; i < ROWS; i++)
        if (!condition_met(rows[i].condition, cpu, controls))
            hide(cpu, &rows[i]);
    for (unsigned i = 0; i < sizeof(followed) / sizeof(followed[0]); i++)
        hide(cpu, &followed[i]);
    cpuid_follow_cr4(cpu);
    return true;
}

static struct cpuid_result hypervisor_leaf(const struct cpu *cpu, uint32_t leaf)
{
    struct cpuid_result r = {0, 0, 0, 0};

    if (leaf == CPUID_HV_SIGNATURE) {
        r.eax = CPUID_HV_LAST;
        r.ebx = PMUVISOR_SIGNATURE_EBX;
        r.ecx = PMUVISOR_SIGNATURE_ECX;
        r.edx = PMUVISOR_SIGNATURE_EDX;
    } else if (leaf == CPUID_HV_FEATURES) {
        r.eax = PMUVISOR_VERSION_MAJOR << 16 | PMUVISOR_VERSION_MINOR << 8 | PMUVISOR_VERSION_PATCH;
        r.ebx = cpu->boot->options.policy;
        r.ecx = cpu->hypercalls;
    }
    return r;
}

static inline void answer(struct cpu *cpu, struct cpuid_result r, const struct cpuid_filter *f)
{
    cpu->gpr[GPR_RAX] = (r.eax & f->keep[EAX]) | f->add[EAX];
    cpu->gpr[GPR_RBX] = (r.ebx & f->keep[EBX]) | f->add[EBX];
    cpu->gpr[GPR_RCX] = (r.ecx & f->keep[ECX]) | f->add[ECX];
    cpu->gpr[GPR_RDX] = (r.edx & f->keep[EDX]) | f->add[EDX];
}

void exit_cpuid(struct cpu *cpu)
{
    uint32_t leaf = (uint32_t)cpu->gpr[GPR_RAX];
    uint32_t subleaf = (uint32_t)cpu->gpr[GPR_RCX];

    if (__builtin_expect(leaf < SLOT_NONE, 1))
        answer(cpu, cpuid(leaf, subleaf),
               &cpu->cpuid_filters[cpu->cpuid_slot[row_of(subleaf)][leaf]]);
    else if (leaf - CPUID_HV_SIGNATURE < HYPERVISOR_LEAVES)
        answer(cpu, hypervisor_leaf(cpu, leaf), &cpu->cpuid_filters[0]);
    else if (leaf == LEAF_EXTENDED_1)
        answer(cpu, cpuid(leaf, subleaf),
               &cpu->cpuid_filters[cpu->cpuid_slot[row_of(subleaf)][SLOT_EXTENDED_1]]);
    else
        answer(cpu, cpuid(leaf, subleaf), &cpu->cpuid_filters[0]);
    skip_instruction(cpu);
}
