/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A processor that keeps an INIT pending through the wait-for-SIPI state, as the SDM lets it: it
 * exits before the first instruction after the SIPI. The hypervisor is whole: it has to start the
 * processor all the same.
 */
#include "vmx/exit/exit.h"

void __real_exit_sipi(struct cpu *cpu);

void __wrap_exit_sipi(struct cpu *cpu)
{
    __real_exit_sipi(cpu);
    exit_init(cpu);
}
