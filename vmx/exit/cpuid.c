/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's CPUID: the processor's own, without what one table hides, plus the hypervisor leaves.
 * A feature is hidden if, on this processor, VMX does not switch its state or does not let the
 * guest execute its instructions. SDM Vol. 2, "CPUID"; Vol. 3, "Changes to Instruction Behavior in
 * VMX Non-Root Operation".
 */
#include "vmx/exit/exit.h"

#include <string.h>

#include "vmx/capability.h"
#include "hypercall.h"

/* Leaf 80000001H has the table's last place. Basic leaves from that place on have no filter. */
#define PLACE_EXTENDED_1 (CPUID_LEAVES - 1)
#define LEAVES_WITH_PLACE (CPUID_LEAVES - 1)
#define ANY_SUBLEAF ~0u

#define HYPERVISOR_LEAVES 0x10000000u /* 0x40000000 .. 0x4fffffff are never hardware's */

enum reg { EAX, EBX, ECX, EDX };

/* Bits that are hidden unless a control that is in use, or an option, allows them. */
struct cpuid_row {
    uint32_t leaf;
    uint32_t subleaf;     /* or ANY_SUBLEAF */
    uint32_t hidden[4];   /* by enum reg */
    enum control_set set; /* the set of the control in `unless`; SET_COUNT: `unless` is an option */
    uint32_t unless;      /* the control, or one of the options below; 0: always hidden */
};
#define WHOLE_LEAF(leaf) leaf, ANY_SUBLEAF, {~0u, ~0u, ~0u, ~0u}
#define ALWAYS SET_PIN, 0
#define OPTION_PMU 1u
#define OPTION_MONITOR 2u
#define UNLESS_PMU SET_COUNT, OPTION_PMU
#define UNLESS_MONITOR SET_COUNT, OPTION_MONITOR

static const struct cpuid_row rows[] = {
    /* VMX: nested virtualization is not offered. SMX: GETSEC always exits and gets #UD. OSXSAVE
     * follows the guest's CR4, see cpuid_follow_cr4(). An option sets the hypervisor bit. */
    {1,
     ANY_SUBLEAF,
     {0, 0, BIT(5) | BIT(6) | CPUID_1_ECX_OSXSAVE | CPUID_1_ECX_HYPERVISOR, 0},
     ALWAYS},
    /* pmu=off: no PDCM, DTES64, DS-CPL, DS, and empty leaves 0AH and 23H. */
    {1, ANY_SUBLEAF, {0, 0, BIT(15) | BIT(2) | BIT(4), BIT(21)}, UNLESS_PMU},
    {7, 1, {BIT(8) /* leaf 23H */, 0, 0, 0}, UNLESS_PMU},
    {WHOLE_LEAF(0x0a), UNLESS_PMU},
    {WHOLE_LEAF(0x23), UNLESS_PMU},
    /* MONITOR: MWAIT does not exit, and the tick stops in the deep C-states that MWAIT reaches. HLT
     * stays. */
    {1, ANY_SUBLEAF, {0, 0, BIT(3), 0}, UNLESS_MONITOR},
    {7, 1, {0, 0, 0, BIT(23)}, UNLESS_MONITOR},
    {WHOLE_LEAF(5), UNLESS_MONITOR},
    /* Hardware feedback, thread director: the processor writes their table to memory, bypassing the
     * EPT (msr.c). */
    {6, ANY_SUBLEAF, {BIT(19) | BIT(23) | BIT(24), 0, 0, 0}, ALWAYS},
    /* SGX, SGX_LC, SGX_KEYS: the EPC is not in the guest's map, and ENCLS exits. */
    {7, 0, {0, BIT(2), BIT(30), BIT(1)}, ALWAYS},
    {WHOLE_LEAF(0x12), ALWAYS},
    /* INVPCID, WAITPKG, RDPID, RDTSCP, XSAVES: without its secondary control, the instruction
     * raises #UD in the guest. */
    {7, 0, {0, BIT(10), 0, 0}, SET_SECONDARY, SECONDARY_ENABLE_INVPCID},
    {7, 0, {0, 0, BIT(5), 0}, SET_SECONDARY, SECONDARY_ENABLE_USER_WAIT},
    {7, 0, {0, 0, BIT(22), 0}, SET_SECONDARY, SECONDARY_ENABLE_RDTSCP},
    {CPUID_LEAF_EXTENDED_1,
     ANY_SUBLEAF,
     {0, 0, 0, BIT(27)},
     SET_SECONDARY,
     SECONDARY_ENABLE_RDTSCP},
    {CPUID_LEAF_XSAVE, 1, {BIT(3), 0, 0, 0}, SET_SECONDARY, SECONDARY_ENABLE_XSAVES},
    /* "Enable PCONFIG" stays 0. */
    {7, 0, {0, 0, 0, BIT(18)}, ALWAYS},
    {WHOLE_LEAF(0x1b), ALWAYS},
    /* MSRLIST, PBNDKB: their tertiary controls are not used. FRED, and NMI_SRC with it: the guest
     * may not set CR4.FRED. */
    {7, 1, {BIT(27) | BIT(17) | BIT(20), BIT(1), 0, 0}, ALWAYS},
    /* APX: exits would name R16 to R31, which are not saved (SDM Vol. 3, the table "Exit
     * Qualification for Control-Register Accesses"). Without XCR0[19], see cr.c, no instruction
     * reaches them. */
    {CPUID_LEAF_XSAVE, 0, {XCR0_APX, 0, 0, 0}, ALWAYS},
    {WHOLE_LEAF(0x29), ALWAYS},
    /* MPX: with BNDCFGS left on, root-mode branches would reset the guest's bounds. */
    {7, 0, {0, BIT(14), 0, 0}, SET_ENTRY, ENTRY_LOAD_BNDCFGS},
    /* CET_SS, CET_IBT, CET_SSS: only the CET controls switch S_CET, SSP and the SSP table. */
    {7, 0, {0, 0, BIT(7), BIT(20)}, SET_ENTRY, ENTRY_LOAD_CET},
    {7, 1, {0, 0, 0, BIT(18)}, SET_ENTRY, ENTRY_LOAD_CET},
    /* UC-lock disable: the guest cannot change its bit in MSR_MEMORY_CTRL (msr.c). */
    {7, 2, {0, 0, 0, BIT(6)}, ALWAYS},
    /* ARCH_LBR: without the control, the guest's LBR stack would record root-mode branches. */
    {7, 0, {0, 0, 0, BIT(19)}, SET_ENTRY, ENTRY_LOAD_LBR_CTL},
    {WHOLE_LEAF(0x1c), SET_ENTRY, ENTRY_LOAD_LBR_CTL},
    /* Intel PT: without the control, root mode would be traced, and traces would bypass the EPT. */
    {7, 0, {0, CPUID_7_EBX_PT, 0, 0}, SET_ENTRY, ENTRY_LOAD_RTIT_CTL},
    {WHOLE_LEAF(CPUID_LEAF_PT), SET_ENTRY, ENTRY_LOAD_RTIT_CTL},
    /* KL, UINTR: VMX has no fields for their state, and the guest may not set their CR4 bits
     * (cr.c). OSPKE follows the guest's CR4. */
    {7, 0, {0, 0, BIT(23) | CPUID_7_ECX_OSPKE, BIT(5)}, ALWAYS},
    {WHOLE_LEAF(0x19), ALWAYS},
    /* Supervisor state of hidden features, which XRSTORS would load, bypassing the MSR bitmap. */
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_UINTR, 0}, ALWAYS},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_PT, 0}, SET_ENTRY, ENTRY_LOAD_RTIT_CTL},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_CET, 0}, SET_ENTRY, ENTRY_LOAD_CET},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_LBR, 0}, SET_ENTRY, ENTRY_LOAD_LBR_CTL},
    /* RDMSR and WRMSRNS with an immediate, URDMSR and UWRMSR: they exit with reasons of their own
     * and get #UD. UTMR, UIRET_UIF: user interrupts. APX_F. */
    {7, 1, {0, 0, BIT(5), BIT(15) | BIT(13) | BIT(17) | BIT(21)}, ALWAYS},
};

/* How the four registers change. Only ECX gains bits. The first filter changes nothing, so that the
 * exit path needs no special case for leaves without a filter. */
struct cpuid_filter {
    uint64_t keep[4];
    uint64_t add_ecx;
};
#define FILTER_PAGES 2
_Static_assert(1 + CPUID_SUBLEAVES * LENGTH_OF(rows) <=
                   FILTER_PAGES * PAGE_SIZE / sizeof(struct cpuid_filter),
               "the filters have room even where no two rows share one");

/* The table's entry for a leaf that has a place. Subleaves 0 and 1 have their own filters, and all
 * others share one. */
static inline struct cpuid_filter **filter_at(struct cpu *cpu, uint64_t place, uint64_t subleaf)
{
    const uint64_t last = CPUID_SUBLEAVES - 1;

    return &cpu->cpuid_filter[place][subleaf < last ? subleaf : last];
}

/* Returns the filter of (leaf, subleaf), and creates it if it does not exist yet. */
static struct cpuid_filter *filter_of(struct cpu *cpu, uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_filter **filter = filter_at(
        cpu, leaf == CPUID_LEAF_EXTENDED_1 ? PLACE_EXTENDED_1 : leaf, subleaf);

    if (*filter == cpu->cpuid_filters) {
        *filter = &cpu->cpuid_filters[cpu->cpuid_count++];
        memset((*filter)->keep, 0xff, sizeof((*filter)->keep));
    }
    return *filter;
}

uint64_t cpuid_hidden_xss(struct cpu *cpu)
{
    return (uint32_t)~filter_of(cpu, CPUID_LEAF_XSAVE, 1)->keep[ECX];
}

/* For a leaf past the highest, the processor returns the data of the highest basic leaf. */
static void hide_past_the_highest(struct cpu *cpu)
{
    uint32_t basic = cpuid(0, 0).eax;

    cpu->cpuid_extended = cpuid(CPUID_LEAF_EXTENDED_HIGHEST, 0).eax - CPUID_LEAF_EXTENDED_HIGHEST;
    cpu->cpuid_highest = basic < LEAVES_WITH_PLACE ? (uint8_t)basic : 0; /* leaf 0 has no filter */
    /* Firmware can limit CPUID to leaves that have nothing hidden. The guest may lift the limit,
     * and then the other leaves exist. */
    if (basic < CPUID_LEAF_EXTENDED)
        return;
    for (uint64_t place = basic + 1ull; place < LEAVES_WITH_PLACE; place++)
        for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
            *filter_at(cpu, place, r) = *filter_at(cpu, basic, r);
}

bool cpuid_setup(struct cpu *cpu, const uint32_t *controls)
{
    const struct options *o = &cpu->boot->options;
    uint32_t options = (o->pmu ? OPTION_PMU : 0) |
                       (cpu->boot->settings.monitor_hidden ? 0 : OPTION_MONITOR);

    cpu->cpuid_filters = page_alloc(FILTER_PAGES);
    if (cpu->cpuid_filters == NULL)
        return false;
    memset(cpu->cpuid_filters[0].keep, 0xff, sizeof(cpu->cpuid_filters[0].keep));
    cpu->cpuid_count = 1;
    for (unsigned place = 0; place < CPUID_LEAVES; place++)
        for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
            *filter_at(cpu, place, r) = cpu->cpuid_filters;
    cpu->hypervisor_bit = o->hypervisor_bit ? CPUID_1_ECX_HYPERVISOR : 0;
    for (const struct cpuid_row *row = rows; row < rows + LENGTH_OF(rows); row++) {
        if ((row->set == SET_COUNT ? options : controls[row->set]) & row->unless)
            continue;
        for (unsigned r = 0; r < CPUID_SUBLEAVES; r++) {
            if (row->subleaf != ANY_SUBLEAF && row->subleaf != r)
                continue;
            for (unsigned reg = 0; reg < 4; reg++)
                filter_of(cpu, row->leaf, r)->keep[reg] &= ~(uint64_t)row->hidden[reg];
        }
    }
    hide_past_the_highest(cpu);
    return true;
}

/* Answers the hypervisor's own leaves. Returns false if the leaf is the processor's. */
static inline bool hypervisor_leaf(struct cpu *cpu, uint64_t leaf)
{
    uint64_t *gpr = cpu->gpr;

    if (leaf == CPUID_HV_SIGNATURE) {
        gpr[GPR_RAX] = CPUID_HV_LAST;
        gpr[GPR_RBX] = PMUVISOR_SIGNATURE_EBX;
        gpr[GPR_RCX] = PMUVISOR_SIGNATURE_ECX;
        gpr[GPR_RDX] = PMUVISOR_SIGNATURE_EDX;
    } else if (leaf == CPUID_HV_FEATURES) {
        gpr[GPR_RAX] = PMUVISOR_VERSION_MAJOR << 16 | PMUVISOR_VERSION_MINOR << 8 |
                       PMUVISOR_VERSION_PATCH;
        gpr[GPR_RBX] = cpu->boot->options.policy;
        gpr[GPR_RCX] = cpu->hypercalls;
        gpr[GPR_RDX] = cpu->mitigations;
    } else if (leaf - CPUID_HV_SIGNATURE < HYPERVISOR_LEAVES) {
        gpr[GPR_RAX] = gpr[GPR_RBX] = gpr[GPR_RCX] = gpr[GPR_RDX] = 0;
    } else {
        return false;
    }
    return true;
}

/* Passes the hardware's answer through a filter. The values are 64 bits wide: CPUID clears the
 * upper halves of its registers, so nothing needs to be extended. */
static inline void answer_filtered(struct cpu *cpu, uint64_t leaf, uint64_t subleaf,
                                   const struct cpuid_filter *f)
{
    uint64_t rax = leaf, rbx, rcx = subleaf, rdx;

    __asm__ volatile("cpuid" : "+a"(rax), "=b"(rbx), "+c"(rcx), "=d"(rdx));
    cpu->gpr[GPR_RAX] = rax & f->keep[EAX];
    cpu->gpr[GPR_RBX] = rbx & f->keep[EBX];
    cpu->gpr[GPR_RCX] = (rcx & f->keep[ECX]) | f->add_ecx;
    cpu->gpr[GPR_RDX] = rdx & f->keep[EDX];
}

/* A 32-bit load, which zero-extends by itself. */
static inline uint32_t lower_half(const uint64_t *value)
{
    uint32_t half;

    __builtin_memcpy(&half, value, sizeof(half));
    return half;
}

void exit_cpuid(struct cpu *cpu)
{
    uint64_t leaf = lower_half(&cpu->gpr[GPR_RAX]), subleaf = lower_half(&cpu->gpr[GPR_RCX]);
    uint64_t extended = leaf - CPUID_LEAF_EXTENDED_HIGHEST;

    if (__builtin_expect(leaf < LEAVES_WITH_PLACE, 1))
        answer_filtered(cpu, leaf, subleaf, *filter_at(cpu, leaf, subleaf));
    else if (extended <= cpu->cpuid_extended)
        answer_filtered(cpu, leaf, subleaf,
                        extended == 1 ? *filter_at(cpu, PLACE_EXTENDED_1, 0) : cpu->cpuid_filters);
    else if (!hypervisor_leaf(cpu, leaf))
        answer_filtered(cpu, leaf, subleaf, *filter_at(cpu, cpu->cpuid_highest, subleaf));
    skip_instruction(cpu);
}

/* CPUID in root mode reports root mode's CR4 bits, so the filters add the guest's. From here on, a
 * MOV that changes the guest's bits exits. */
void cpuid_follow_cr4(struct cpu *cpu)
{
    uint64_t cr4 = vmcs_read_natural(VMCS_GUEST_CR4);
    uint32_t osxsave = cr4 & CR4_OSXSAVE ? CPUID_1_ECX_OSXSAVE : 0;

    for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
        filter_of(cpu, 1, r)->add_ecx = cpu->hypervisor_bit | osxsave;
    filter_of(cpu, 7, 0)->add_ecx = cr4 & CR4_PKE ? CPUID_7_ECX_OSPKE : 0;
    vmcs_write_natural(VMCS_CR4_READ_SHADOW, cr4 & CR4_TRACKED);
    vmcs_write_natural(VMCS_CR4_GUEST_HOST_MASK, cpu->cr.cr4_refused | CR4_TRACKED);
}
