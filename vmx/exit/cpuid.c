/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's CPUID: the processor's own CPUID without the bits that one table hides, and the
 * hypervisor's own leaves. The table hides a feature if VMX on this processor does not switch the
 * feature's state, or does not let the guest execute the feature's instructions. The guest sees
 * every bit that the table does not hide. This includes features that are newer than this version.
 * Nobody has checked what VMX does with such features. For leaves that still get new bits, the
 * table also lists the bits that this version knows and does not hide. SDM Vol. 2, "CPUID"; Vol. 3,
 * "Changes to Instruction Behavior in VMX Non-Root Operation"; for bits that the SDM does not name
 * yet, Linux, tools/arch/x86/kcpuid/cpuid.csv.
 */
#include "vmx/exit/exit.h"

#include <string.h>

#include "vmx/capability.h"
#include "vmx/hypervisor.h"
#include "hypercall.h"

#define ANY_SUBLEAF ~0u
#define WHOLE_LEAF(leaf) leaf, ANY_SUBLEAF, {~0u, ~0u, ~0u, ~0u}

#define HYPERVISOR_LEAVES 0x10000000u /* hardware never has 0x40000000 .. 0x4fffffff */

enum reg { EAX, EBX, ECX, EDX };

/* The condition for hiding a row's bits: never, always, or if an option or a control is off. */
enum when {
    NEVER,
    ALWAYS,
    WITHOUT_PMU,
    WITHOUT_MONITOR,
    WITHOUT_INVPCID,
    WITHOUT_USER_WAIT,
    WITHOUT_RDTSCP,
    WITHOUT_XSAVES,
    WITHOUT_BNDCFGS,
    WITHOUT_CET,
    WITHOUT_ARCH_LBR,
    WITHOUT_PT,
};

struct cpuid_row {
    uint32_t leaf;
    uint32_t subleaf; /* or ANY_SUBLEAF */
    uint32_t bits[4]; /* indexed by enum reg */
    enum when when;
};

static const struct cpuid_row rows[] = {
    /* VMX: nested virtualization is not offered. SMX: GETSEC always exits and gets #UD. OSXSAVE
     * follows the guest's CR4, see cpuid_update_for_cr4(). An option sets the hypervisor bit. */
    {1,
     ANY_SUBLEAF,
     {0, 0, BIT(5) | BIT(6) | CPUID_1_ECX_OSXSAVE | CPUID_1_ECX_HYPERVISOR, 0},
     ALWAYS},
    /* pmu=off: no PDCM, DTES64, DS-CPL, DS, and empty leaves 0AH and 23H. */
    {1, ANY_SUBLEAF, {0, 0, BIT(15) | BIT(2) | BIT(4), BIT(21)}, WITHOUT_PMU},
    {7, 1, {BIT(8) /* leaf 23H */, 0, 0, 0}, WITHOUT_PMU},
    {WHOLE_LEAF(0x0a), WITHOUT_PMU},
    {WHOLE_LEAF(0x23), WITHOUT_PMU},
    /* MONITOR: MWAIT does not exit, and it reaches deep C-states, in which the tick stops. The
     * guest can still idle with HLT. */
    {1, ANY_SUBLEAF, {0, 0, BIT(3), 0}, WITHOUT_MONITOR},
    {7, 1, {0, 0, 0, BIT(23)}, WITHOUT_MONITOR},
    {WHOLE_LEAF(5), WITHOUT_MONITOR},
    /* Hardware feedback and thread director, with their classes and the layout of their table: the
     * processor writes this table to memory, bypassing the EPT (msr.c). */
    {6, ANY_SUBLEAF, {BIT(19) | BIT(23) | BIT(24), 0, 0xff00, ~0u}, ALWAYS},
    /* SGX, SGX_LC, SGX_KEYS: the EPC is not in the guest's map, and ENCLS exits. */
    {7, 0, {0, BIT(2), BIT(30), BIT(1)}, ALWAYS},
    {WHOLE_LEAF(0x12), ALWAYS},
    /* INVPCID, WAITPKG, RDPID, RDTSCP, XSAVES: each needs a secondary control. Without the control,
     * the instruction raises #UD in the guest. */
    {7, 0, {0, BIT(10), 0, 0}, WITHOUT_INVPCID},
    {7, 0, {0, 0, BIT(5), 0}, WITHOUT_USER_WAIT},
    {7, 0, {0, 0, BIT(22), 0}, WITHOUT_RDTSCP},
    {CPUID_LEAF_EXTENDED_1, ANY_SUBLEAF, {0, 0, 0, BIT(27)}, WITHOUT_RDTSCP},
    {CPUID_LEAF_XSAVE, 1, {BIT(3), 0, 0, 0}, WITHOUT_XSAVES},
    /* PCONFIG: the control "Enable PCONFIG" stays 0. */
    {7, 0, {0, 0, 0, BIT(18)}, ALWAYS},
    {WHOLE_LEAF(0x1b), ALWAYS},
    /* MSRLIST, PBNDKB: their tertiary controls are not used. FRED, and NMI_SRC with it: the guest
     * may not set CR4.FRED. */
    {7, 1, {BIT(27) | BIT(17) | BIT(20), BIT(1), 0, 0}, ALWAYS},
    /* APX: an exit could name one of R16 to R31, which root mode does not save (SDM Vol. 3, the
     * table "Exit Qualification for Control-Register Accesses"). Without XCR0[19], no instruction
     * reaches these registers (cr.c). */
    {CPUID_LEAF_XSAVE, 0, {XCR0_APX, 0, 0, 0}, ALWAYS},
    {WHOLE_LEAF(0x29), ALWAYS},
    /* MPX: unless exits clear BNDCFGS, branches in root mode would reset the guest's bounds. */
    {7, 0, {0, BIT(14), 0, 0}, WITHOUT_BNDCFGS},
    /* CET_SS, CET_IBT, CET_SSS: only the CET controls switch S_CET, SSP and the SSP table. */
    {7, 0, {0, 0, BIT(7), BIT(20)}, WITHOUT_CET},
    {7, 1, {0, 0, 0, BIT(18)}, WITHOUT_CET},
    /* UC-lock disable: the guest cannot change its bit in MSR_MEMORY_CTRL (msr.c). */
    {7, 2, {0, 0, 0, BIT(6)}, ALWAYS},
    /* ARCH_LBR: unless exits clear IA32_LBR_CTL, guest LBRs would record root-mode branches. */
    {7, 0, {0, 0, 0, BIT(19)}, WITHOUT_ARCH_LBR},
    {WHOLE_LEAF(0x1c), WITHOUT_ARCH_LBR},
    /* Intel PT: without its controls, root mode would be traced, and traces bypass the EPT. */
    {7, 0, {0, CPUID_7_EBX_PT, 0, 0}, WITHOUT_PT},
    {WHOLE_LEAF(CPUID_LEAF_PT), WITHOUT_PT},
    /* KL, UINTR: VMX has no fields for their state, and the guest may not set their CR4 bits
     * (cr.c). OSPKE follows the guest's CR4. */
    {7, 0, {0, 0, BIT(23) | CPUID_7_ECX_OSPKE, BIT(5)}, ALWAYS},
    {WHOLE_LEAF(0x19), ALWAYS},
    /* Supervisor state of hidden features: XRSTORS would load this state, bypassing the MSR
     * bitmap. */
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_UINTR, 0}, ALWAYS},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_PT, 0}, WITHOUT_PT},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_CET, 0}, WITHOUT_CET},
    {CPUID_LEAF_XSAVE, 1, {0, 0, XSS_LBR, 0}, WITHOUT_ARCH_LBR},
    /* RDMSR and WRMSRNS with an immediate, URDMSR and UWRMSR exit with their own reasons and get
     * #UD. UTMR, UIRET_UIF and APX_F belong to user interrupts and APX, which are hidden. */
    {7, 1, {0, 0, BIT(5), BIT(15) | BIT(13) | BIT(17) | BIT(21)}, ALWAYS},
    /* All other bits that this version knows, in the leaves that still get new bits. In 0DH.1, EBX
     * is a size, and ECX and EDX list the bits of IA32_XSS. */
    {7,
     1,
     {BITS(7, 0) | BITS(12, 10) | BITS(19, 18) | BITS(23, 21) | BIT(26) | BITS(31, 30),
      BIT(0) | BIT(3), BITS(1, 0),
      BITS(5, 4) | BIT(8) | BIT(10) | BIT(14) | BIT(19) | BIT(22) | BIT(24)},
     NEVER},
    {7, 2, {0, 0, 0, BITS(5, 0) | BIT(7)}, NEVER},
    {CPUID_LEAF_XSAVE,
     1,
     {BITS(2, 0) | BIT(4), BITS(31, 0), BIT(10) | BIT(13) | BIT(16), 0},
     NEVER},
    {CPUID_LEAF_PMU_EXTENDED, 0, {BITS(5, 0), BITS(2, 0), 0, 0}, NEVER},
};

/* Returns the bits of one register that the table names for the leaf and subleaf of this row. */
static uint32_t get_known_bits(const struct cpuid_row *leaf, unsigned reg)
{
    uint32_t known = 0;

    for (const struct cpuid_row *row = rows; row < rows + LENGTH_OF(rows); row++)
        if (row->leaf == leaf->leaf && row->subleaf == leaf->subleaf)
            known |= row->bits[reg];
    return known;
}

void cpuid_log_unknown_bits(void)
{
    for (const struct cpuid_row *row = rows; row < rows + LENGTH_OF(rows); row++) {
        if (row->when != NEVER || row->leaf > cpuid(0, 0).eax)
            continue;
        struct cpuid_result r = cpuid(row->leaf, row->subleaf);
        const uint32_t found[] = {r.eax, r.ebx, r.ecx, r.edx};

        for (unsigned reg = 0; reg < LENGTH_OF(found); reg++) {
            uint32_t unknown = found[reg] & ~get_known_bits(row, reg);
            if (unknown != 0)
                log_printf("CPUID has bits that this version does not know: 0x%x.%u:E%cX 0x%x\n",
                           row->leaf, row->subleaf, "ABCD"[reg], unknown);
        }
    }
}

#define PLACE_NOTHING_HIDDEN 0 /* the place of leaf 0 */
#define PLACE_LAST_BASIC (CPUID_LEAVES - 2)
#define PLACE_EXTENDED_1 (CPUID_LEAVES - 1)
/* Returns the index of a leaf's row in cpuid.filters. For a leaf past the highest leaf, the
 * processor returns the data of the highest basic leaf. */
static inline unsigned get_filter_index(const struct cpu *cpu, uint32_t leaf)
{
    if (leaf <= cpu->cpuid.highest)
        return leaf;
    if (leaf == CPUID_LEAF_EXTENDED_1)
        return PLACE_EXTENDED_1;
    return leaf - CPUID_LEAF_EXTENDED_HIGHEST <= cpu->cpuid.extended ? PLACE_NOTHING_HIDDEN
                                                                     : cpu->cpuid.highest;
}

/* Subleaves 0 and 1 have their own filters, and all other subleaves share one filter. */
static inline struct cpuid_filter *get_cpuid_filter(struct cpu *cpu, uint32_t leaf,
                                                    uint32_t subleaf)
{
    const uint32_t last = CPUID_SUBLEAVES - 1;

    return &cpu->cpuid.filters[get_filter_index(cpu, leaf)][subleaf < last ? subleaf : last];
}

uint64_t cpuid_hidden_xss(struct cpu *cpu)
{
    return ~get_cpuid_filter(cpu, CPUID_LEAF_XSAVE, 1)->keep[ECX];
}

static void hide_cpuid_bits(struct cpu *cpu, const struct cpuid_row *row)
{
    for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
        for (unsigned reg = 0; reg < 4; reg++)
            if (row->subleaf == ANY_SUBLEAF || row->subleaf == r)
                get_cpuid_filter(cpu, row->leaf, r)->keep[reg] &= ~row->bits[reg];
}

void cpuid_setup(struct cpu *cpu, const uint32_t *controls)
{
    const struct options *o = &cpu->boot->options;
    uint32_t highest = cpuid(0, 0).eax;
    const uint32_t secondary = controls[SET_SECONDARY], entry = controls[SET_ENTRY];
    const bool applies[] = {
        [ALWAYS] = true,
        [WITHOUT_PMU] = !o->pmu,
        [WITHOUT_MONITOR] = cpu->boot->settings.monitor_hidden,
        [WITHOUT_INVPCID] = !(secondary & SECONDARY_ENABLE_INVPCID),
        [WITHOUT_USER_WAIT] = !(secondary & SECONDARY_ENABLE_USER_WAIT),
        [WITHOUT_RDTSCP] = !(secondary & SECONDARY_ENABLE_RDTSCP),
        [WITHOUT_XSAVES] = !(secondary & SECONDARY_ENABLE_XSAVES),
        [WITHOUT_BNDCFGS] = !(entry & ENTRY_LOAD_BNDCFGS),
        [WITHOUT_CET] = !(entry & ENTRY_LOAD_CET),
        [WITHOUT_ARCH_LBR] = !(entry & ENTRY_LOAD_LBR_CTL),
        [WITHOUT_PT] = !(entry & ENTRY_LOAD_RTIT_CTL),
    };

    cpu->cpuid.highest = PLACE_LAST_BASIC;
    cpu->cpuid.extended = cpuid(CPUID_LEAF_EXTENDED_HIGHEST, 0).eax - CPUID_LEAF_EXTENDED_HIGHEST;
    cpu->cpuid.hypervisor_bit = o->hypervisor_bit ? CPUID_1_ECX_HYPERVISOR : 0;
    for (unsigned place = 0; place < CPUID_LEAVES; place++)
        for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
            cpu->cpuid.filters[place][r] = (struct cpuid_filter){.keep = {~0u, ~0u, ~0u, ~0u}};
    for (const struct cpuid_row *row = rows; row < rows + LENGTH_OF(rows); row++)
        if (applies[row->when])
            hide_cpuid_bits(cpu, row);
    /* Firmware can limit CPUID to a few basic leaves. Ignore such a limit (a highest leaf below 7),
     * because the guest may lift it, and then the other leaves exist. */
    if (highest >= CPUID_LEAF_EXTENDED && highest < PLACE_LAST_BASIC)
        cpu->cpuid.highest = highest;
}

static struct cpuid_result answer_hypervisor_leaf(const struct cpu *cpu, uint32_t leaf)
{
    const uint32_t version = PMUVISOR_VERSION_MAJOR << 16 | PMUVISOR_VERSION_MINOR << 8 |
                             PMUVISOR_VERSION_PATCH;

    if (leaf == CPUID_HV_SIGNATURE)
        return (struct cpuid_result){CPUID_HV_LAST, PMUVISOR_SIGNATURE_EBX, PMUVISOR_SIGNATURE_ECX,
                                     PMUVISOR_SIGNATURE_EDX};
    if (leaf == CPUID_HV_FEATURES)
        return (struct cpuid_result){version, cpu->boot->options.policy, cpu->hypercalls,
                                     cpu->mitigations};
    return (struct cpuid_result){0, 0, 0, 0};
}

static inline struct cpuid_result answer_filtered_leaf(struct cpu *cpu, uint32_t leaf,
                                                       uint32_t subleaf)
{
    const struct cpuid_filter *filter = get_cpuid_filter(cpu, leaf, subleaf);
    struct cpuid_result r = cpuid(leaf, subleaf);

    return (struct cpuid_result){r.eax & filter->keep[EAX], r.ebx & filter->keep[EBX],
                                 (r.ecx & filter->keep[ECX]) | filter->add_ecx,
                                 r.edx & filter->keep[EDX]};
}

void exit_cpuid(struct cpu *cpu)
{
    uint32_t leaf = (uint32_t)cpu->gpr[GPR_RAX], subleaf = (uint32_t)cpu->gpr[GPR_RCX];
    struct cpuid_result answer = leaf - CPUID_HV_SIGNATURE < HYPERVISOR_LEAVES
                                     ? answer_hypervisor_leaf(cpu, leaf)
                                     : answer_filtered_leaf(cpu, leaf, subleaf);

    cpu->gpr[GPR_RAX] = answer.eax;
    cpu->gpr[GPR_RBX] = answer.ebx;
    cpu->gpr[GPR_RCX] = answer.ecx;
    cpu->gpr[GPR_RDX] = answer.edx;
    skip_instruction(cpu);
}

/* CPUID in root mode reports the bits of root mode's CR4, so the filters add the bits of the
 * guest's CR4. After this call, a MOV that changes these bits exits. */
void cpuid_update_for_cr4(struct cpu *cpu)
{
    uint64_t cr4 = vmcs_read_natural(VMCS_GUEST_CR4);
    uint32_t osxsave = cr4 & CR4_OSXSAVE ? CPUID_1_ECX_OSXSAVE : 0;

    for (unsigned r = 0; r < CPUID_SUBLEAVES; r++)
        get_cpuid_filter(cpu, 1, r)->add_ecx = cpu->cpuid.hypervisor_bit | osxsave;
    get_cpuid_filter(cpu, CPUID_LEAF_EXTENDED, 0)->add_ecx = cr4 & CR4_PKE ? CPUID_7_ECX_OSPKE : 0;
    vmcs_write_natural(VMCS_CR4_READ_SHADOW, cr4 & CR4_TRACKED);
    vmcs_write_natural(VMCS_CR4_GUEST_HOST_MASK, cpu->cr.cr4_refused | CR4_TRACKED);
}
