/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest owns the PMU. Apart from host work and policy=intercept, the hypervisor does only three
 * things: it switches IA32_PERF_GLOBAL_CTRL at exits and entries, so that nothing counts in root
 * mode; it handles PMIs that arrive in root mode; and it hides the PMU if pmu=off. Thesis, section
 * 3.1.
 *
 * AnyThread is not handled. With AnyThread, a counter of version 3 or 4 also counts root mode on
 * the other hyperthread. The SDM (Vol. 3, "Architectural Performance Monitoring Version 3")
 * therefore tells a VMM to intercept IA32_PERFEVTSELx and IA32_FIXED_CTR_CTRL. PMUvisor does not,
 * because each write of these registers would exit.
 */
#pragma once

#include "vmx/cpu.h"

/* Chooses how GLOBAL_CTRL is switched, from the controls in use (indexed by enum control_set). */
enum global_ctrl_switch pmu_choose_switch(bool pmu, const uint32_t *controls);
const char *pmu_switch_name(enum global_ctrl_switch how);

/* ---- pmu_registers.c: which MSRs belong to the PMU, and what CPUID says about this PMU ---- */

#define PMU_FIXED_MAX 16    /* fixed counters with indices below 0x1900 */
#define PMU_VERSION_NAMES 6 /* the first version with the indices from 0x1900 on */
#define PMU_CONTEXT_MAX 511 /* room for all registers of the table if all 64 counters exist */

/* The facts that CPUID.0AH, CPUID.23H and IA32_PERF_CAPABILITIES report. `capabilities` is 0 if the
 * processor has no such register. */
struct pmu_facts {
    unsigned version;      /* of architectural performance monitoring */
    uint32_t general;      /* general-purpose counters, a bit for each */
    uint32_t fixed;        /* fixed-function counters, a bit for each */
    uint64_t capabilities; /* IA32_PERF_CAPABILITIES */
};
struct pmu_facts pmu_read_facts(void);
/* Derives the facts from these values. leaf_23_1 is CPUID.(EAX=23H,ECX=1), which names all
 * counters, or NULL if this leaf does not exist. If it is NULL, fixed counter i exists if leaf 0AH
 * has ECX[i] set or EDX[4:0] > i (SDM Vol. 3, "Architectural Performance Monitoring Version 5").
 * Pure. */
struct pmu_facts pmu_decode_facts(const struct cpuid_result *leaf_0a,
                                  const struct cpuid_result *leaf_23_1, uint64_t capabilities);

/* Makes accesses exit. With policy=intercept, these are all accesses to the PMU and to branch
 * records. `arch_lbr` says whether this includes architectural branch records. Accesses to the
 * registers that turn records on do not exit, because the VMCS switches these registers. With
 * pmu=off, only accesses to the PMU exit, because branch records belong to debugging (SDM Vol. 3,
 * "Debug, Branch Profile, TSC, ..."). */
void pmu_trap_setup(struct cpu *cpu, bool arch_lbr);
/* Returns whether pmu_trap_setup() made accesses to this index exit, even if this processor lacks
 * the register. */
bool pmu_is_trapped(const struct cpu *cpu, uint32_t index);
/* Lists the registers that hold the state of one user of the PMU, on a processor with these
 * counters. Each register is in the list once. The registers that counting needs come first.
 * Without `whole`, lists only these. Returns the number of registers. A register that no CPUID bit
 * reports may be missing on this processor, so the caller has to probe it. */
unsigned pmu_list_msrs(const struct pmu_facts *facts, bool whole, uint32_t list[PMU_CONTEXT_MAX]);

/* ---- pmu_switch.c ---- */

/* Writes the PMU's part of the VMCS, once. */
void pmu_setup(struct cpu *cpu);

/* Handles a guest's access to a PMU MSR that exits (the table in vmx/exit/msr.c names this
 * function). Performs the access on the hardware or, with pmu=off, refuses it. Returns false if the
 * guest gets #GP. */
bool pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);

/* Returns whether RDPMC above CPL 0 reads 0 with this ECX. Call this only for an ECX with which
 * RDPMC does not fault. */
bool pmu_is_rdpmc_user_disabled(uint32_t counter);

/* Read and write the guest's IA32_PERF_GLOBAL_CTRL. For exit handlers. */
uint64_t pmu_get_global_ctrl(const struct cpu *cpu);
void pmu_set_global_ctrl(struct cpu *cpu, uint64_t value);

/* The MSR-store list leaves the guest's GLOBAL_CTRL in memory. After the handler of an exit,
 * vmx/exit/entry.asm checks whether that value has changed. If so, entry.asm calls this function,
 * because the VMCS has to load the new value. pmu_setup() calls this function for the first
 * value. */
void pmu_reload_global_ctrl(struct cpu *cpu);

/* ---- branch_records.c: branch records for host work ---- */

/* Finds this processor's branch records, architectural or older ones. The records stay off. Returns
 * NULL if the processor has no records that this file knows. */
const struct branch_records *branch_records_find(void);
/* Returns the number of current records whose source is the branch at this address. */
unsigned branch_records_count_from(const struct branch_records *records, uint64_t address);

/* ---- pebs.c: PEBS that may write its record after an exit ---- */

/* Returns whether PEBS is isolated: its records stay in the world that enabled it, the guest or
 * root mode. The answer depends on the PMU's version, CPUID.1:EAX and the microcode revision.
 * Pure. */
bool pebs_is_isolated(unsigned version, uint32_t signature, uint32_t microcode);
/* Returns whether this processor has PEBS that is not isolated. */
bool pebs_needs_switch(unsigned version);

/* ---- guest_pmi.c: a guest PMI that reaches root mode; NMI context ---- */

/* Returns whether the guest's PMU has raised an NMI that the guest's handler has not finished with.
 * Returns true while that handler runs, too. The evidence is two facts together:
 *
 * First, LVTPC says NMI and is masked, which is how the delivery of a PMI leaves LVTPC (SDM Vol. 3,
 * "Local Vector Table"). Second, something that raises a PMI is set: a bit of
 * IA32_PERF_GLOBAL_STATUS that comes with a PMI, or BTINT in the guest's IA32_DEBUGCTL. BTINT
 * counts because the buffer of branch records (BTS) sets no bit of IA32_PERF_GLOBAL_STATUS.
 *
 * LVTPC alone is no evidence: a guest without a driver keeps LVTPC masked for ever, and every host
 * NMI would bring the guest an NMI that nobody claims. The bits alone are no evidence either: a
 * counter may overflow without asking for a PMI. */
bool pmu_pmi_raised(const struct cpu *cpu);

/* Called when root mode sends an NMI to the guest again. If the NMI is a PMI, freezes what the
 * guest's IA32_DEBUGCTL would have frozen at the PMI: the guest's counters by FREEZE_PERFMON_ON_PMI
 * and the guest's branch records by FREEZE_LBRS_ON_PMI. Nothing counts and no branch is recorded in
 * root mode, so any moment before the entry is as good as the moment of the PMI. Must not be called
 * while another user has the PMU.
 *
 * Before version 4, does not freeze counters. The freeze of such a PMU clears GLOBAL_CTRL, but the
 * code that the NMI interrupts may be about to write GLOBAL_CTRL's value to the VMCS. (Linux does
 * not ask for this freeze.) Does not see PMIs that LVTPC delivers as interrupts. */
void pmu_freeze_as_guest(const struct cpu *cpu);

/* ---- pmu_context.c: switches the whole state of the PMU between two users: the guest and the
 * host, or two guests. Thesis, section 3.1 (sched_out and sched_in). ---- */

/* The registers of one user, in the order of this processor's list. GLOBAL_CTRL is not in the list:
 * for a guest it is in the VMCS, and in root mode it is 0 outside host work. */
struct pmu_context {
    uint64_t value[PMU_CONTEXT_MAX]; /* values of the registers in the list */
    uint64_t status;                 /* IA32_PERF_GLOBAL_STATUS */
};
_Static_assert(sizeof(struct pmu_context) <= PAGE_SIZE, "it has a page of its own");

/* Probes which registers this processor has. */
void pmu_context_setup(struct cpu *cpu);

/* Saves the registers to *from and loads them from *to, with one RDMSR and one WRMSR for each
 * register. Clears GLOBAL_STATUS first and sets it last. GLOBAL_CTRL is 0 before and after. Without
 * `whole`, switches only the registers that counting needs. The registers of the debug store and
 * about a hundred branch records then keep the other user's values. So only a user who samples
 * precisely or records branches pays for these registers. */
void pmu_context_switch(struct cpu *cpu, struct pmu_context *from, const struct pmu_context *to,
                        bool whole);

/* Host work counts with counter 0, if pmu_context_setup() has found it. */
#define HOST_GLOBAL_CTRL 1
