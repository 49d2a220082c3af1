/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The measurements of guest/measure/ in the bench kernel: natively, under PMUvisor, and under KVM,
 * which may start the kernel without firmware, ACPI tables, or a local APIC that is enabled.
 * Touches what those touch. SDM Vol. 3, "Local APIC"; the signature of KVM: Linux,
 * Documentation/virt/kvm/x86/cpuid.rst.
 */
#include "bench.h"

#include "../measure/measure.h"
#include "hypercall.h"
#include "log.h"
#include "msr.h"
#include "x86.h"

#define KVM_SIGNATURE_EBX 0x4b4d564bu /* "KVMK" */
#define KVM_SIGNATURE_ECX 0x564b4d56u /* "VMKV" */
#define KVM_SIGNATURE_EDX 0x0000004du /* "M" */
#define CPUID_1_ECX_HYPERVISOR BIT(31)
#define PM1_BYTES 2
#define ELCR_BYTES 1

static enum measure_hypervisor hypervisor(void)
{
    if (!(cpuid(1, 0).ecx & CPUID_1_ECX_HYPERVISOR))
        return MEASURE_NATIVE;
    if (under_pmuvisor())
        return MEASURE_PMUVISOR;
    struct cpuid_result r = cpuid(CPUID_HV_SIGNATURE, 0);
    return r.ebx == KVM_SIGNATURE_EBX && r.ecx == KVM_SIGNATURE_ECX && r.edx == KVM_SIGNATURE_EDX
               ? MEASURE_KVM : MEASURE_OTHER;
}

/* `measure`, `measure:EXPERIMENT`, `measure:EXPERIMENT:RUNS:OPERATIONS`. */
void test_measure(const struct job *job)
{
    struct measure_environment e = {
        .print = log_printf,
        .nmi_entry = cpu_nmi_entry,
        .apic = apic_x2() ? NULL : (volatile void *)(rdmsr(IA32_APIC_BASE) & BITS(51, 12)),
        .hypervisor = hypervisor(),
        .runs = (uint32_t)job->number[0],
        .operations = (uint32_t)job->number[1],
    };

    if (e.hypervisor == MEASURE_KVM) {
        e.trapped_port = MEASURE_KVM_PORT;
        e.trapped_bytes = ELCR_BYTES;
    } else if (machine_pm1a_control() != 0) {
        e.trapped_port = machine_pm1a_control();
        e.trapped_bytes = PM1_BYTES;
        e.trapped_clear = MEASURE_PM1_CLEAR;
    }
    /* Without firmware it is as the processor's reset left it: off, and every LVT entry masked. */
    apic_software_enable(true);
    bool known = measure_run(&e, job->word[0] != '\0' ? job->word : NULL);
    if (measure_stray_nmis() != 0)
        tap_note("%lu NMIs that nothing waited for", measure_stray_nmis());
    tap_result(known && measure_failures() == 0 && measure_stray_nmis() == 0, job->name,
               known ? NULL : "wanted measure:msr, exit, pmi or a1k");
}
