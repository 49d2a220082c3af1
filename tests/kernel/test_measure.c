/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The measurements of programs/measure/ in the test kernel: natively, under PMUvisor, and under
 * KVM, which may start the kernel without firmware, ACPI tables, or a local APIC that is enabled.
 * Touches what those touch. SDM Vol. 3, "Local APIC".
 */
#include "kernel.h"

#include "../../programs/measure/measure.h"
#include "console/log.h"

/* SDM Vol. 4, "MSR_SMI_COUNT". */
#define MSR_SMI_COUNT 0x34

/* `measure:smis`: how many SMIs the machine has had so far. */
static void say_smis(const struct job *job)
{
    uint64_t count = 0;
    bool counted = rdmsr_try(MSR_SMI_COUNT, &count);

    tap_note("SMIs: %lu", count);
    tap_result(counted, job->name, counted ? NULL : "wanted an MSR that counts SMIs");
}

/* `measure`, `measure:EXPERIMENT`, `measure:EXPERIMENT:RUNS:OPERATIONS`. */
void test_measure(const struct job *job)
{
    struct measure_environment e = {
        .print = log_printf,
        .nmi_entry = cpu_nmi_entry,
        .apic = apic_x2() ? NULL : (volatile void *)(rdmsr(IA32_APIC_BASE) & BITS(51, 12)),
        .runs = (uint32_t)job->number[0],
        .operations = (uint32_t)job->number[1],
    };

    if (text_equal(job->word, "smis")) {
        say_smis(job);
        return;
    }
    measure_platform(&e, machine_pm1a_control());
    /* Without firmware it is as the processor's reset left it: off, and every LVT entry masked. */
    apic_software_enable(true);
    bool known = measure_run(&e, job->word[0] != '\0' ? job->word : NULL);
    if (measure_stray_nmis() != 0)
        tap_note("%lu NMIs that nothing waited for", measure_stray_nmis());
    tap_result(known && measure_failures() == 0 && measure_stray_nmis() == 0, job->name,
               known ? NULL : "wanted measure:msr, exit, pmi or a1k");
}
