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

#define OFFSETS(X)                                                                                 \
    X(CPU_SELF, offsetof(struct cpu, self))                                                        \
    X(CPU_GPR, offsetof(struct cpu, gpr))                                                          \
    X(CPU_GLOBAL_CTRL, offsetof(struct cpu, pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value))           \
    X(CPU_GLOBAL_CTRL_LOADED, offsetof(struct cpu, pmu.global_ctrl_loaded))                        \
    X(CPU_MITIGATIONS, offsetof(struct cpu, mitigations))                                          \
    X(CPU_SPEC_CTRL, offsetof(struct cpu, spec_ctrl))                                              \
    X(MITIGATION_RSB, MITIGATION_RSB)                                                              \
    X(MITIGATION_IBRS, MITIGATION_IBRS)                                                            \
    X(MITIGATION_L1D, MITIGATION_L1D)                                                              \
    X(MITIGATION_VERW, MITIGATION_VERW)                                                            \
    X(IA32_SPEC_CTRL, IA32_SPEC_CTRL)                                                              \
    X(SPEC_CTRL_IBRS, SPEC_CTRL_IBRS)                                                              \
    X(IA32_FLUSH_CMD, IA32_FLUSH_CMD)                                                              \
    X(FLUSH_CMD_L1D, FLUSH_CMD_L1D)                                                                \
    X(ROOT_CS, ROOT_CS)                                                                            \
    X(ROOT_DS, ROOT_DS)                                                                            \
    X(NMI_RETURN_BLOCKED, NMI_RETURN_BLOCKED)                                                      \
    X(NMI_RETURN_COUNTING, NMI_RETURN_COUNTING)                                                    \
    X(IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_CTRL)                                                \
    X(HOST_GLOBAL_CTRL, HOST_GLOBAL_CTRL)

void define_asm_offsets(void);

void define_asm_offsets(void)
{
#define DEFINE(name, value) __asm__ volatile("# ->" #name " %c0" : : "i"(value));
    OFFSETS(DEFINE)
#undef DEFINE
}
