/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Offsets and constants that the assembly code needs. The build compiles this file and extracts
 * them from the compiler's output into offsets.inc (Makefile).
 */
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/root/descriptors.h"
#include "hypercall.h"
#include "msr.h"
#include "x86.h"

#define DEFINE(name, value) __asm__ volatile("# ->" #name " %c0" : : "i"(value))

void define_asm_offsets(void);

void define_asm_offsets(void)
{
    DEFINE(CPU_SELF, offsetof(struct cpu, self));
    DEFINE(CPU_GPR, offsetof(struct cpu, gpr));
    DEFINE(CPU_GLOBAL_CTRL, offsetof(struct cpu, pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value));
    DEFINE(CPU_GLOBAL_CTRL_LOADED, offsetof(struct cpu, pmu.global_ctrl_loaded));
    DEFINE(CPU_MITIGATIONS, offsetof(struct cpu, mitigations));
    DEFINE(CPU_SPEC_CTRL, offsetof(struct cpu, spec_ctrl));
    DEFINE(MITIGATION_RSB, MITIGATION_RSB);
    DEFINE(MITIGATION_IBRS, MITIGATION_IBRS);
    DEFINE(MITIGATION_L1D, MITIGATION_L1D);
    DEFINE(MITIGATION_VERW, MITIGATION_VERW);
    DEFINE(IA32_SPEC_CTRL, IA32_SPEC_CTRL);
    DEFINE(SPEC_CTRL_IBRS, SPEC_CTRL_IBRS);
    DEFINE(IA32_FLUSH_CMD, IA32_FLUSH_CMD);
    DEFINE(FLUSH_CMD_L1D, FLUSH_CMD_L1D);
    DEFINE(ROOT_CS, ROOT_CS);
    DEFINE(ROOT_DS, ROOT_DS);
    DEFINE(NMI_RETURN_BLOCKED, NMI_RETURN_BLOCKED);
    DEFINE(NMI_RETURN_COUNTING, NMI_RETURN_COUNTING);
    DEFINE(IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_CTRL);
    DEFINE(HOST_GLOBAL_CTRL, HOST_GLOBAL_CTRL);
}
