/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Single steps of branches alone, natively and across exits: an instruction that the hypervisor
 * completes has no trap where IA32_DEBUGCTL.BTF is set; a taken branch has one, which clears BTF.
 * SDM Vol. 3, "Single-Stepping on Branches", "Guest Non-Register State".
 */
#include "kernel.h"

#define NOTES 16

extern const char step_debug[];
extern const uint64_t step_places[], step_places_end[];
void step_branches(void);
void step_note(struct trap_frame *frame);

static struct note {
    uint64_t rip, dr6, debugctl;
} notes[NOTES];
static unsigned noted;

void step_note(struct trap_frame *frame)
{
    if (noted < NOTES)
        notes[noted] = (struct note){frame->rip, read_dr6(), rdmsr(IA32_DEBUGCTL)};
    noted++;
    write_dr6(DR6_NONE);
    if (noted >= NOTES)
        frame->rflags &= ~(uint64_t)RFLAGS_TF;
    else
        wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
}

void test_smp_step(const struct job *job)
{
    unsigned wanted = (unsigned)(step_places_end - step_places);
    bool good;

    noted = 0;
    cpu_gate_smp(VECTOR_DB, step_debug, 0);
    write_dr6(DR6_NONE);
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
    step_branches();
    wrmsr(IA32_DEBUGCTL, 0);
    cpu_gate_smp(VECTOR_DB, NULL, 0);
    good = noted == wanted;
    for (unsigned i = 0; i < wanted && good; i++)
        good = notes[i].rip == step_places[i] && notes[i].dr6 == (DR6_NONE | DR6_BS) &&
               notes[i].debugctl == 0;
    if (!good)
        tap_note("%u traps, wanted %u", noted, wanted);
    for (unsigned i = 0; i < noted && i < NOTES && !good; i++)
        tap_note("trap %u: 0x%lx, DR6 0x%lx, DEBUGCTL 0x%lx; wanted 0x%lx", i, notes[i].rip,
                 notes[i].dr6, notes[i].debugctl, i < wanted ? step_places[i] : 0);
    tap_result(good, job->name, NULL);
}
