/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers the flow trace.
 */
#include "experiment.h"

#include "experiments/flow/hypervisor/dump.h"
#include "experiments/flow/hypervisor/level.h"
#include "experiments/flow/hypervisor/options.h"
#include "experiments/flow/hypervisor/ports.h"
#include "lib/refusal.h"

static const struct option_row options[] = {EXPERIMENT_OPTIONS(EXPERIMENT_OPTION)};

/* Checks that the processor allows the controls that the trace turns on, and has the other features
 * that the trace uses. */
static bool check_features(const struct vmx_capability *c, struct refusal *r)
{
    static const struct {
        const char *name;
        enum control_set set;
        uint32_t bit;
    } controls[] = {{"external-interrupt exiting", SET_PIN, PIN_EXTERNAL_INTERRUPT_EXITING},
                    {"interrupt-window exiting", SET_PRIMARY, PRIMARY_INTERRUPT_WINDOW_EXITING},
                    {"HLT exiting", SET_PRIMARY, PRIMARY_HLT_EXITING},
                    {"CR3-load exiting", SET_PRIMARY, PRIMARY_CR3_LOAD_EXITING}};
    uint64_t targets = (c->misc & VMX_MISC_CR3_TARGETS) >> VMX_MISC_CR3_TARGETS_SHIFT;

    if (ring_options.exits != TRACE_FLOW)
        return true;
    for (unsigned i = 0; i < LENGTH_OF(controls); i++)
        if (!vmx_require_control(c, controls[i].set, controls[i].bit, controls[i].name, r))
            return false;
    if (targets < CR3_TARGETS || !(c->misc & VMX_MISC_ACTIVITY_HLT))
        return refuse(
            r, REFUSE_UNSUPPORTED,
            "trace=flow: found %lu CR3-target values and %s HLT activity state "
            "(IA32_VMX_MISC is 0x%lx), wanted %u and one: use trace=exits, or a processor "
            "or outer hypervisor that has them",
            targets, c->misc & VMX_MISC_ACTIVITY_HLT ? "a" : "no", c->misc, CR3_TARGETS);
    return true;
}

static bool hides_monitor(void) { return ring_options.exits == TRACE_FLOW; }

/* Returns the number of pages: one IDT for each processor. */
static uint64_t count_pages(const struct boot_info *bi, UNUSED uint64_t tables)
{
    return ring_options.exits == TRACE_FLOW ? ring_count(bi) : 0;
}

const struct experiment flow_experiment = {
    .name = "flow",
    .options = options,
    .option_count = LENGTH_OF(options),
    .possible = check_features,
    .hides_monitor = hides_monitor,
    .pages = count_pages,
    .setup = trace_setup,
};
EXPERIMENT(flow_experiment);
