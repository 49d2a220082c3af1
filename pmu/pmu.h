/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest owns the PMU. What is left to do is IA32_PERF_GLOBAL_CTRL at exits and entries, so that
 * nothing counts in root mode, PMIs that come there, and to hide the PMU where pmu=off. Thesis,
 * section 3.1.
 *
 * Not done: AnyThread, by which a counter of version 3 or 4 counts the other hyperthread's root
 * mode, too. The SDM (Vol. 3, "Architectural Performance Monitoring Version 3") has a VMM intercept
 * IA32_PERFEVTSELx and IA32_FIXED_CTR_CTRL for it: an exit for each write of them.
 */
#pragma once

#include "vmx/cpu.h"

/* Chooses how GLOBAL_CTRL is switched, from the controls in use (indexed by enum control_set). */
enum global_ctrl_switch pmu_choose(bool pmu, const uint32_t *controls);
const char *pmu_switch_name(enum global_ctrl_switch how);

/* ---- pmu_registers.c: which MSRs are the PMU's, and what CPUID says of this one ---- */

#define PMU_FIXED_MAX 16    /* with indices below 0x1900 */
#define PMU_VERSION_NAMES 6 /* the first with the indices from 0x1900 on */
#define PMU_CONTEXT_MAX 511 /* more registers than the table has with 32 counters of each kind */

/* From CPUID.0AH, CPUID.23H and IA32_PERF_CAPABILITIES (0: there is none). */
struct pmu_facts {
    unsigned version;
    uint32_t general, fixed; /* counters, a bit for each */
    uint64_t capabilities;
};
struct pmu_facts pmu_facts(void);
/* The same from these; leaf_23_1 is CPUID.(EAX=23H,ECX=1), which says it all where it is there
 * (NULL: it is not). Without it fixed counter i is there if ECX[i] or EDX[4:0] > i of leaf 0AH
 * (SDM Vol. 3, "Architectural Performance Monitoring Version 5"). Pure. */
struct pmu_facts pmu_facts_of(const struct cpuid_result *leaf_0a,
                              const struct cpuid_result *leaf_23_1, uint64_t capabilities);

/* Lets accesses exit. policy=intercept: the PMU's and branch records' (architectural ones with
 * arch_lbr), not what turns these on, which the VMCS switches. pmu=off: the PMU's alone; branch
 * records are debugging's (SDM Vol. 3, "Debug, Branch Profile, TSC, ..."). */
void pmu_trap_setup(struct cpu *cpu, bool arch_lbr);
/* An index that pmu_trap_setup() has let exit, whether this processor has the register or not. */
bool pmu_is_trapped(const struct cpu *cpu, uint32_t index);
/* The indices that hold one user's state on a processor with these counters, each register once;
 * gives their number. The first ones are those that counting needs, and without `whole` the only
 * ones. Whether a processor has one that no CPUID bit tells about has to be tried. */
unsigned pmu_list(const struct pmu_facts *facts, bool whole, uint32_t list[PMU_CONTEXT_MAX]);

/* ---- pmu_switch.c ---- */

/* Writes the PMU's part of the VMCS, once. */
void pmu_setup(struct cpu *cpu);

/* One access of the guest to an MSR of the PMU, where these exit (a row's function in
 * vmx/exit/msr.c): done on the hardware, or, with pmu=off, refused. False: #GP. */
bool pmu_access(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);

/* Above CPL 0 RDPMC gives 0 for this ECX, for which it does not fault. */
bool pmu_kept_from_user(uint32_t counter);

/* The guest's IA32_PERF_GLOBAL_CTRL, in an exit's handler. */
uint64_t pmu_global_ctrl(const struct cpu *cpu);
void pmu_set_global_ctrl(struct cpu *cpu, uint64_t value);

/* To be called when the VMCS is current and an exit was handled. The MSR-store list left the
 * guest's value in memory; the VMCS has to load it again when it changed. */
void pmu_reload_global_ctrl(struct cpu *cpu);

static inline void pmu_before_entry(struct cpu *cpu)
{
    uint64_t stored = cpu->pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value;

    if (__builtin_expect(stored != cpu->pmu.global_ctrl_loaded, 0))
        pmu_reload_global_ctrl(cpu);
}

/* ---- branch_records.c: branch records for host work ---- */

/* This processor's, architectural or not, which are off then; NULL: none that are known here. */
const struct branch_records *records_find(void);
/* How many of the records there are now are of a branch at this address. */
unsigned records_from(const struct branch_records *records, uint64_t address);

/* ---- pebs.c: PEBS that may write its record behind an exit ---- */

/* Whether PEBS keeps to the world that it was enabled in, by the version of the PMU, CPUID.1:EAX
 * and the microcode's revision. Pure. */
bool pebs_isolated(unsigned version, uint32_t signature, uint32_t microcode);
/* This processor has PEBS, and it is not isolated. */
bool pebs_needs_switch(unsigned version);

/* ---- guest_pmi.c: a PMI of the guest's that root mode meets; NMI context. ---- */

/* The guest's PMU has raised an NMI that its handler has not dealt with. True while that handler
 * runs, too. The evidence is two things together: LVTPC says NMI and is masked, as the delivery of
 * a PMI leaves it (SDM Vol. 3, "Local Vector Table"), and something is there that raises one: a bit
 * of IA32_PERF_GLOBAL_STATUS that comes with a PMI, or, because the buffer of branch records (BTS)
 * sets none, BTINT in the guest's IA32_DEBUGCTL. LVTPC alone would be no evidence: a guest without
 * a driver keeps it masked for ever, and every host NMI would bring it one that nobody claims. Nor
 * would the bits alone: a counter may overflow without asking for a PMI. */
bool pmu_pmi_raised(const struct cpu *cpu);

/* An NMI that root mode took is sent to the guest again. Where it is a PMI: freezes what the
 * guest's IA32_DEBUGCTL would have frozen at it, FREEZE_PERFMON_ON_PMI its counters and
 * FREEZE_LBRS_ON_PMI its branch records. Left out: counters before version 4, whose freeze clears
 * GLOBAL_CTRL, since the VMCS may be about to get its value from what this interrupts (Linux does
 * not ask for it). Not seen here: PMIs that LVTPC delivers as interrupts. Nothing counts and no
 * branch is recorded in root mode, so any moment before the entry is as good as the PMI's. Not
 * while the PMU is another's. */
void pmu_freeze_as_guest(const struct cpu *cpu);

/* ---- pmu_context.c: the whole state of a PMU, to be switched between two users of it: the guest
 * and the host, or two guests. Thesis, section 3.1 (sched_out and sched_in). ---- */

/* One user's registers, in the order of this processor's list. GLOBAL_CTRL is not among them: it is
 * in the VMCS for a guest, and 0 in root mode outside host work. */
struct pmu_context {
    uint64_t value[PMU_CONTEXT_MAX];
    uint64_t status; /* IA32_PERF_GLOBAL_STATUS */
};
_Static_assert(sizeof(struct pmu_context) <= PAGE_SIZE, "it has a page of its own");

/* Finds out which registers this processor has. False: the page pool is used up. */
bool pmu_context_setup(struct cpu *cpu);

/* Saves what is in the registers to *from and loads *to: one RDMSR and one WRMSR for each register,
 * status first cleared and last set. GLOBAL_CTRL is 0, before and after. Without `whole` only what
 * counting needs: who neither samples precisely nor records branches does not pay for the buffer's
 * registers and some hundred of branch records, which keep the other's values. */
void pmu_context_switch(struct cpu *cpu, struct pmu_context *from, const struct pmu_context *to,
                        bool whole);

/* What host work counts with, where pmu_context_setup() has found it: counter 0. */
#define HOST_GLOBAL_CTRL 1
