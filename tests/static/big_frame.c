/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor with a frame on the exit path that is larger than the stack: stack.py must refuse
 * it.
 */
#include "vmx/exit/exit.h"

#define LARGER_THAN_THE_STACK 20000

void __real_vmx_exit(struct cpu *cpu);

void __wrap_vmx_exit(struct cpu *cpu)
{
    volatile char frame[LARGER_THAN_THE_STACK];

    frame[0] = 0;
    frame[sizeof(frame) - 1] = frame[0];
    __real_vmx_exit(cpu);
    frame[1] = frame[0]; /* not a jump: the frame is there in the call */
}
