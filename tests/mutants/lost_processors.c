/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor of which two processors do not come through their start: 1 stays in a loop, 2 takes
 * a fault. The others have to go on without them.
 */
#include "vmx/start/start.h"

#define LOOPS 1
#define FAULTS 2

void __real_processor_set_up_exits(struct start *s);

void __wrap_processor_set_up_exits(struct start *s)
{
    while (s->cpu->apic_id == LOOPS)
        cpu_relax();
    if (s->cpu->apic_id == FAULTS)
        __asm__ volatile("ud2");
    __real_processor_set_up_exits(s);
}
