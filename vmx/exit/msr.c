/* SPDX-License-Identifier: BSD-2-Clause
 *
 * MSRs. All pass through, except those in two tables: the table in this file, which gives the
 * reason for each MSR, and the PMU's table (pmu/pmu_registers.c). MSRs outside the bitmap's two
 * ranges always exit. From 2000H to 3FFFH, root mode performs the access on the hardware. Accesses
 * to higher MSRs outside the two ranges fault. No Intel processor has a register there. An outer
 * hypervisor may have one, and a write to this register may make that hypervisor write to memory.
 * SDM Vol. 3, "MSR-Bitmap Address"; Vol. 4 for the registers.
 */
#include "vmx/exit/exit.h"

#include "apic/apic_registers.h"
#include "pmu/pmu.h"
#include "vmx/capability.h"
#include "vmx/msr_bitmap.h"
#include "vmx/root/fault.h"

enum action {
    PASS,   /* straight to the hardware, no exit */
    FAULT,  /* #GP(0), as on a processor without the register */
    KEEP,   /* a write of the current value has no effect; any other write gets #GP(0) */
    DO,     /* exits, and root mode performs the access on the hardware */
    CUSTOM, /* the row's function handles the access */
};

/* The condition under which a rule applies. */
enum when {
    ALWAYS,
    WITHOUT_CET,
    WITHOUT_ARCH_LBR,
    WITHOUT_PMU,
    WITHOUT_MONITOR,
    PEBS_PAST_EPT,
    APIC_TRAP,
    PMU_TRAP,
    PT_TRAP,
    NO_RULE
};

struct msr_rule {
    uint32_t first; /* the lowest MSR that the rule covers */
    uint32_t last;  /* the highest MSR that the rule covers */
    enum action read;
    enum action write;
    enum when when;
    /* For CUSTOM: handles the access. Returns false if the guest gets #GP. */
    bool (*custom)(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);
};

#define FEATURE_CONTROL_HIDDEN                                                                     \
    (FEATURE_CONTROL_VMX_INSIDE_SMX | FEATURE_CONTROL_VMX_OUTSIDE_SMX | FEATURE_CONTROL_SENTER |   \
     FEATURE_CONTROL_SGX_LC | FEATURE_CONTROL_SGX)
#define CORE_CAP_HIDDEN (CORE_CAP_RAR | CORE_CAP_INTEGRITY | CORE_CAP_UC_LOCK_DISABLE)

/* Clears the bits of features that the guest does not have, because CPUID hides them or the rows
 * below block them. IA32_FEATURE_CONTROL reads as locked. */
static bool read_without_hidden_bits(UNUSED struct cpu *cpu, uint32_t index, uint64_t *value,
                                     UNUSED bool write)
{
    uint64_t hidden = index == IA32_FEATURE_CONTROL     ? FEATURE_CONTROL_HIDDEN
                      : index == IA32_CORE_CAPABILITIES ? CORE_CAP_HIDDEN
                                                        : ARCH_CAP_FB_CLEAR_CTRL;
    uint64_t added = index == IA32_FEATURE_CONTROL ? FEATURE_CONTROL_LOCK : 0;
    bool there = rdmsr_safe(index, value);

    *value = (*value & ~hidden) | added;
    return there;
}

#define MISC_ENABLE_OF_PMU                                                                         \
    (MISC_ENABLE_EMON | MISC_ENABLE_BTS_UNAVAILABLE | MISC_ENABLE_PEBS_UNAVAILABLE)

/* The bits of components that CPUID hides count as reserved. Without SECONDARY_ENABLE_XSAVES, every
 * write is refused, because CPUID hides XSAVES. */
static bool write_xss(UNUSED struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    return write && vmcs_read_32(VMCS_SECONDARY_CONTROLS) & SECONDARY_ENABLE_XSAVES &&
           !(*value & vmcs_read_64(VMCS_XSS_EXITING_BITMAP)) && wrmsr_safe(index, *value);
}

/* Returns whether the register exists and has this value. */
static bool msr_equals(uint32_t index, uint64_t value)
{
    uint64_t now;

    return rdmsr_safe(index, &now) && now == value;
}

/* Software disables the MTRRs before it rewrites them (SDM Vol. 3, "MTRR Considerations in MP
 * Systems"). The write that disables them is accepted without effect. The writes that follow are
 * accepted only if they change nothing. */
static bool write_mtrr_def_type(UNUSED struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    return write && (!(*value & MTRR_DEF_TYPE_E) || msr_equals(index, *value));
}

/* Writes the register, except for one bit that would harm the hypervisor. This bit keeps its value.
 * XD Bit Disable would make the XD bits in the hypervisor's own page tables reserved. FB_CLEAR_DIS
 * would make the hypervisor's VERW ineffective. With UC-lock disable, the hypervisor's locks would
 * fault while the guest has CR0.CD set, because CR0.CD stays set in root mode. The write as a whole
 * is not refused: natively it succeeds, and one bit should not fail it. In IA32_MISC_ENABLE, the
 * bits that access_misc_enable() may show with another value also stay as they are. */
static bool write_except_protected_bits(struct cpu *cpu, uint32_t index, uint64_t *value,
                                        bool write)
{
    uint64_t now, bit = index == IA32_MISC_ENABLE  ? MISC_ENABLE_XD_DISABLE
                        : index == MSR_MEMORY_CTRL ? MEMORY_CTRL_UC_LOCK_DISABLE
                                                   : MCU_OPT_CTRL_FB_CLEAR_DIS;
    uint64_t kept = bit;

    if (index == IA32_MISC_ENABLE)
        kept |= MISC_ENABLE_OF_PMU | (cpu->boot->settings.monitor_hidden ? MISC_ENABLE_MONITOR : 0);
    if (!write || !rdmsr_safe(index, &now) || !wrmsr_safe(index, (*value & ~kept) | (now & kept)))
        return false;
    if ((now ^ *value) & bit && may_log_refusal(cpu))
        log_printf("pmuvisor: the guest's write of 0x%lx to MSR 0x%x was done but for bits 0x%lx\n",
                   *value, index, bit);
    return true;
}

/* Reads come here only with pmu=off, or if CPUID hides MONITOR. */
static bool access_misc_enable(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    if (write)
        return write_except_protected_bits(cpu, index, value, write);
    bool there = rdmsr_safe(index, value);
    if (!cpu->boot->options.pmu)
        *value = (*value & ~MISC_ENABLE_OF_PMU) | MISC_ENABLE_BTS_UNAVAILABLE |
                 MISC_ENABLE_PEBS_UNAVAILABLE;
    if (cpu->boot->settings.monitor_hidden)
        *value &= ~MISC_ENABLE_MONITOR;
    return there;
}

/* Lets the guest change the APIC's mode on the hardware, but not its base. */
static bool write_apic_base(UNUSED struct cpu *cpu, UNUSED uint32_t index, uint64_t *value,
                            UNUSED bool write)
{
    uint64_t now = rdmsr(IA32_APIC_BASE);

    /* The BSP bit may not change either: on a hardware INIT, the processor with this bit jumps to
     * firmware, but the others wait for a SIPI. */
    return ((*value ^ now) & (APIC_BASE_ADDRESS | APIC_BASE_BSP)) == 0 &&
           wrmsr_safe(IA32_APIC_BASE, *value);
}

#define APIC_BASE_MODE (APIC_BASE_EN | APIC_BASE_EXTD)

/* Returns whether the processor itself refuses this write, because the write sets reserved bits or
 * is not a valid change of mode. SDM Vol. 3, "Local APIC Status and Location", "x2APIC State
 * Transitions". */
static bool is_apic_base_invalid(uint64_t value)
{
    uint64_t addresses = BIT(cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax & 0xff) - 1;
    uint64_t was = rdmsr(IA32_APIC_BASE) & APIC_BASE_MODE, mode = value & APIC_BASE_MODE;

    return value & ~((APIC_BASE_ADDRESS & addresses) | APIC_BASE_BSP | APIC_BASE_MODE) ||
           mode == APIC_BASE_EXTD || (was == APIC_BASE_MODE && mode == APIC_BASE_EN) ||
           (was == 0 && mode == APIC_BASE_MODE);
}

/* The rule for the registers of the PMU and of branch records. These registers have their own table
 * (pmu/pmu_registers.c). With pmu=off, the PMU's registers fault, as on a processor without a PMU.
 * With policy=intercept, root mode performs every access to PMU and branch records for the guest.
 * IA32_DEBUGCTL and IA32_LBR_CTL, which turn records on, pass through, because the VMCS switches
 * them. */
static const struct msr_rule pmu_rule = {0, 0, CUSTOM, CUSTOM, PMU_TRAP, pmu_access_register};

#define ONE(index) (index), (index)
/* Short forms for the rows. ABSENT: the guest has no such register. WRITES_REFUSED: reads pass, and
 * every write gets #GP. WRITES_UNCHANGED: reads pass, and a write may not change the value.
 * WRITES_BY: reads pass, and a function handles writes. READS_BY: a function handles reads, and
 * every write gets #GP. */
#define ABSENT(when) FAULT, FAULT, when, NULL
#define WRITES_REFUSED PASS, FAULT, ALWAYS, NULL
#define WRITES_UNCHANGED PASS, KEEP, ALWAYS, NULL
#define WRITES_BY(function) PASS, CUSTOM, ALWAYS, function
#define READS_BY(function) CUSTOM, FAULT, ALWAYS, function

static const struct msr_rule rules[] = {
    /* If the APIC moved, the hypervisor's own page tables would map the wrong page. */
    {ONE(IA32_APIC_BASE), WRITES_BY(write_apic_base)},
    /* The features that this register enables are hidden. */
    {ONE(IA32_FEATURE_CONTROL), READS_BY(read_without_hidden_bits)},
    /* A microcode update while a guest runs may change what VMX can do. */
    {ONE(IA32_BIOS_UPDT_TRIG), WRITES_REFUSED},
    {IA32_SGXLEPUBKEYHASH0, IA32_SGXLEPUBKEYHASH0 + 3, ABSENT(ALWAYS)},
    /* SMM and the memory that these registers protect belong to firmware. (Most of these accesses
     * also fault natively outside SMM.) */
    {IA32_SMM_MONITOR_CTL, IA32_SMBASE, ABSENT(ALWAYS)},
    {IA32_SMRR_PHYSBASE, MSR_PRMRR_PHYSMASK, WRITES_UNCHANGED},
    {MSR_PRMRR_BASE_0, MSR_PRMRR_BASE_7, WRITES_UNCHANGED},
    {MSR_UNCORE_PRMRR_PHYSBASE, MSR_UNCORE_PRMRR_PHYSMASK, WRITES_UNCHANGED},
    {MSR_SMM_FEATURE_CONTROL, MSR_SMM_BLOCKED, ABSENT(ALWAYS)},
    {IA32_SEAMRR_PHYSBASE, IA32_SEAMRR_PHYSMASK, WRITES_UNCHANGED},
    /* These registers hold physical addresses to which the processor writes, bypassing the EPT:
     * trace hub, PEBS, remote action requests, hardware feedback. */
    {ONE(MSR_TRACE_HUB_STH_ACPIBAR_BASE), WRITES_UNCHANGED},
    {ONE(IA32_PEBS_BASE), PASS, CUSTOM, PEBS_PAST_EPT, pmu_access_register},
    {MSR_RAR_CONTROL, MSR_RAR_INFO, ABSENT(ALWAYS)},
    {IA32_HW_FEEDBACK_PTR, IA32_HW_FEEDBACK_THREAD_CONFIG, ABSENT(ALWAYS)},
    /* KVM's clock: an outer KVM would write the time to any address that the guest names. */
    {MSR_KVM_WALL_CLOCK, MSR_KVM_SYSTEM_TIME, ABSENT(ALWAYS)},
    /* These registers change what memory holds or what the processor computes, for the hypervisor
     * as well as for the guest: undervolting, cache as RAM, self-tests, encryption, probes. */
    {ONE(MSR_OC_MAILBOX), WRITES_REFUSED},
    {ONE(MSR_NO_EVICT_MODE), WRITES_UNCHANGED},
    {ONE(MSR_ARRAY_BIST), WRITES_REFUSED},
    {MSR_COPY_SBFT_HASHES, MSR_PERIODIC_MEM_BIST_STATUS, WRITES_REFUSED},
    {MSR_SAF_CTRL, MSR_SBFT_CTRL, WRITES_REFUSED},
    {ONE(IA32_INTEGRITY_CAPABILITIES), ABSENT(ALWAYS)},
    {ONE(IA32_CORE_CAPABILITIES), CUSTOM, PASS, ALWAYS, read_without_hidden_bits},
    {ONE(IA32_ARCH_CAPABILITIES), CUSTOM, PASS, ALWAYS, read_without_hidden_bits},
    {IA32_TME_ACTIVATE, IA32_TME_EXCLUDE_BASE, WRITES_UNCHANGED},
    {ONE(IA32_DEBUG_INTERFACE), WRITES_UNCHANGED},
    {ONE(MSR_MEMORY_CTRL), WRITES_BY(write_except_protected_bits)},
    {ONE(IA32_MISC_ENABLE), CUSTOM, CUSTOM, WITHOUT_PMU, access_misc_enable},
    {ONE(IA32_MISC_ENABLE), CUSTOM, CUSTOM, WITHOUT_MONITOR, access_misc_enable},
    {ONE(IA32_MISC_ENABLE), WRITES_BY(access_misc_enable)},
    {ONE(IA32_MCU_OPT_CTRL), WRITES_BY(write_except_protected_bits)},
    /* The EPT keeps the memory types that the MTRRs had at the start, so the MTRRs stay fixed. */
    {IA32_MTRR_PHYSBASE0, IA32_MTRR_PHYSBASE0 + 2 * MTRR_VARIABLE_MAX - 1, WRITES_UNCHANGED},
    {ONE(IA32_MTRR_FIX64K_00000), WRITES_UNCHANGED},
    {IA32_MTRR_FIX16K_80000, IA32_MTRR_FIX16K_A0000, WRITES_UNCHANGED},
    {IA32_MTRR_FIX4K_C0000, IA32_MTRR_FIX4K_F8000, WRITES_UNCHANGED},
    {ONE(IA32_MTRR_DEF_TYPE), WRITES_BY(write_mtrr_def_type)},
    /* CPUID shows no VMX, URDMSR, FRED, user interrupts or Key Locker. */
    {IA32_VMX_BASIC, IA32_VMX_EXIT_CTLS2, ABSENT(ALWAYS)},
    {ONE(IA32_USER_MSR_CTL), ABSENT(ALWAYS)},
    {IA32_FRED_RSP0, IA32_FRED_RSP0 + 8, ABSENT(ALWAYS)},
    {IA32_UINTR_RR, IA32_UINTR_RR + 5, ABSENT(ALWAYS)},
    {IA32_COPY_STATUS, IA32_IWKEYBACKUP_STATUS, ABSENT(ALWAYS)},
    {IA32_COPY_LOCAL_TO_PLATFORM, IA32_COPY_PLATFORM_TO_LOCAL, ABSENT(ALWAYS)},
    /* Uncore counters, which are outside the bitmap's two ranges. */
    {MSR_BITMAP_RANGE, MSR_PAST_BITMAP_LAST, DO, DO, ALWAYS, NULL},
    /* In x2APIC mode, accesses to these MSRs exit, as accesses to the APIC's page do in xAPIC mode
     * (vmx/exit/apic_trap.c). */
    {IA32_X2APIC_FIRST, IA32_X2APIC_LAST, DO, DO, APIC_TRAP, NULL},
    {IA32_RTIT_OUTPUT_BASE, IA32_RTIT_ADDR3_B, CUSTOM, CUSTOM, PT_TRAP, pt_access_register},
    {ONE(IA32_XSS), WRITES_BY(write_xss)},
    /* CPUID shows CET and architectural LBRs only if VMX switches them. */
    {ONE(IA32_U_CET), ABSENT(WITHOUT_CET)},
    {ONE(IA32_S_CET), ABSENT(WITHOUT_CET)},
    {IA32_PL0_SSP, IA32_INTERRUPT_SSP_TABLE_ADDR, ABSENT(WITHOUT_CET)},
    {IA32_LBR_INFO0, IA32_LBR_INFO0 + 31, ABSENT(WITHOUT_ARCH_LBR)},
    {IA32_LBR_CTL, IA32_LBR_DEPTH, ABSENT(WITHOUT_ARCH_LBR)},
    {IA32_LBR_FROM0, IA32_LBR_FROM0 + 31, ABSENT(WITHOUT_ARCH_LBR)},
    {IA32_LBR_TO0, IA32_LBR_TO0 + 31, ABSENT(WITHOUT_ARCH_LBR)},
};

void msr_setup(struct cpu *cpu, const uint32_t *controls)
{
    const bool used[] = {
        [ALWAYS] = true,
        [WITHOUT_CET] = !(controls[SET_ENTRY] & ENTRY_LOAD_CET),
        [WITHOUT_ARCH_LBR] = !(controls[SET_ENTRY] & ENTRY_LOAD_LBR_CTL),
        [WITHOUT_PMU] = !cpu->boot->options.pmu,
        [WITHOUT_MONITOR] = cpu->boot->settings.monitor_hidden,
        [PT_TRAP] = !(controls[SET_ENTRY] & ENTRY_LOAD_RTIT_CTL) ||
                    cpu->boot->options.policy == POLICY_INTERCEPT,
        [APIC_TRAP] = cpu->boot->options.apic_trap,
        [PEBS_PAST_EPT] = !(controls[SET_PRIMARY] & PRIMARY_TERTIARY_CONTROLS),
    };

    pmu_trap_setup(cpu, !used[WITHOUT_ARCH_LBR]);
    for (const struct msr_rule *rule = rules; rule < rules + LENGTH_OF(rules); rule++)
        if (used[rule->when])
            msr_bitmap_set(cpu->msr_bitmap, rule->first, rule->last, rule->read != PASS,
                           rule->write != PASS);
}

/* Returns the rule for an MSR that exited. An MSR without a row is outside the bitmap's two ranges:
 * inside them, only MSRs with a row exit. No row is in the bitmap's high range, so the search
 * covers only low indices. SDM Vol. 4, "Architectural MSRs": no processor uses 40000000H to
 * 400000FFH, and hypervisors place their MSRs in 40000000H to 4FFFFFFFH. */
static const struct msr_rule *find_msr_rule(const struct cpu *cpu, uint32_t index)
{
    static const struct msr_rule none = {0, UINT32_MAX, ABSENT(NO_RULE)};

    if (pmu_is_trapped(cpu, index)) /* first, because these exits should be the cheapest */
        return &pmu_rule;
    for (unsigned i = 0; index <= MSR_PAST_BITMAP_LAST && i < LENGTH_OF(rules); i++)
        if (index >= rules[i].first && index <= rules[i].last)
            return &rules[i];
    return &none;
}

static void complete_msr_read(struct cpu *cpu, bool done, uint64_t value)
{
    if (done) {
        cpu->gpr[GPR_RAX] = (uint32_t)value;
        cpu->gpr[GPR_RDX] = value >> 32;
        skip_instruction(cpu);
    } else
        inject_gp();
}

void exit_rdmsr(struct cpu *cpu)
{
    uint32_t index = (uint32_t)cpu->gpr[GPR_RCX];
    const struct msr_rule *rule = find_msr_rule(cpu, index);
    uint64_t value = 0;
    bool done = rule->read == CUSTOM ? rule->custom(cpu, index, &value, false)
                                     : rule->read != FAULT && rdmsr_safe(index, &value);

    complete_msr_read(cpu, done, value);
}

/* The processor itself checks whether the guest may execute RDPMC, before the exit (SDM Vol. 3,
 * "Relative Priority of Faults and VM Exits"). */
void exit_rdpmc(struct cpu *cpu)
{
    uint32_t counter = (uint32_t)cpu->gpr[GPR_RCX];
    uint64_t value = 0;
    bool done = cpu->boot->options.pmu && rdpmc_safe(counter, &value);

    if (done && guest_cpl() != 0 && pmu_is_rdpmc_user_disabled(counter))
        value = 0;
    complete_msr_read(cpu, done, value);
}

static bool write_msr(struct cpu *cpu, const struct msr_rule *rule, uint32_t index, uint64_t value)
{
    if (rule->write == CUSTOM)
        return rule->custom(cpu, index, &value, true);
    if (rule->write == KEEP)
        return msr_equals(index, value);
    return rule->write != FAULT && wrmsr_safe(index, value);
}

/* Returns whether the processor itself has refused this write, or would refuse it. Such a refusal
 * is not logged. */
static bool is_refused_natively(const struct msr_rule *rule, uint32_t index, uint64_t value)
{
    switch (rule->when) {
    case APIC_TRAP:
    case PMU_TRAP:
    case PT_TRAP:
    case NO_RULE:
        return true;
    default:
        return rule->write == DO || (index == IA32_APIC_BASE && is_apic_base_invalid(value));
    }
}

void exit_wrmsr(struct cpu *cpu)
{
    uint32_t index = (uint32_t)cpu->gpr[GPR_RCX];
    uint64_t value = (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32;
    const struct msr_rule *rule = find_msr_rule(cpu, index);

    if (write_msr(cpu, rule, index, value)) {
        skip_instruction(cpu);
        return;
    }
    if (!is_refused_natively(rule, index, value) && may_log_refusal(cpu))
        log_printf("pmuvisor: the guest's write of 0x%lx to MSR 0x%x was refused: #GP\n", value,
                   index);
    inject_gp();
}
