/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Offsets that the assembly needs, taken from C by the build (Makefile, offsets.inc).
 */
#include "../nmi/nmi.h"
#include "../pmu/host_work.h"
#include "cpu.h"
#include "descriptors.h"

#define DEFINE(name, value) __asm__ volatile("# ->" #name " %c0" : : "i"(value))
#define DEFINE_GPR(name) DEFINE(CPU_##name, offsetof(struct cpu, gpr[GPR_##name]))

void offsets(void);

void offsets(void)
{
    DEFINE(CPU_SELF, offsetof(struct cpu, self));
    DEFINE(CPU_GLOBAL_CTRL, offsetof(struct cpu, pmu.guest_list[0].value));
    DEFINE(CPU_GLOBAL_CTRL_LOADED, offsetof(struct cpu, pmu.global_ctrl_loaded));
    DEFINE(ROOT_CS, ROOT_CS);
    DEFINE(ROOT_DS, ROOT_DS);
    DEFINE(NMI_RETURN_BLOCKED, NMI_RETURN_BLOCKED);
    DEFINE(NMI_RETURN_COUNTING, NMI_RETURN_COUNTING);
    DEFINE(IA32_PERF_GLOBAL_CTRL, IA32_PERF_GLOBAL_CTRL);
    DEFINE(HOST_GLOBAL_CTRL, HOST_GLOBAL_CTRL);
    DEFINE_GPR(RAX);
    DEFINE_GPR(RCX);
    DEFINE_GPR(RDX);
    DEFINE_GPR(RBX);
    DEFINE_GPR(RBP);
    DEFINE_GPR(RSI);
    DEFINE_GPR(RDI);
    DEFINE_GPR(R8);
    DEFINE_GPR(R9);
    DEFINE_GPR(R10);
    DEFINE_GPR(R11);
    DEFINE_GPR(R12);
    DEFINE_GPR(R13);
    DEFINE_GPR(R14);
    DEFINE_GPR(R15);
}
