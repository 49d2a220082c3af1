/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which hypervisor CPUID shows, and the port whose accesses it traps. Touches CPUID only.
 * Linux, Documentation/virt/kvm/x86/cpuid.rst (KVM's signature); ACPI, "PM1 Control Registers".
 */
#include "internal.h"

#include "hypercall.h"

#define LEAF_FEATURES 1
#define LEAF_1_ECX_HYPERVISOR (1u << 31)
#define KVM_SIGNATURE_EBX 0x4b4d564bu /* "KVMK" */
#define KVM_SIGNATURE_ECX 0x564b4d56u /* "VMKV" */
#define KVM_SIGNATURE_EDX 0x0000004du /* "M" */
#define PM1_BYTES 2
#define ELCR_BYTES 1

static enum measure_hypervisor hypervisor(void)
{
    struct cpuid_result l = cpuid(CPUID_HV_SIGNATURE, 0);
    /* With hypervisor_bit=off the leaf alone says so. Natively it is another leaf's data. */
    if (l.ebx == PMUVISOR_SIGNATURE_EBX && l.ecx == PMUVISOR_SIGNATURE_ECX &&
        l.edx == PMUVISOR_SIGNATURE_EDX)
        return MEASURE_PMUVISOR;
    if (!(cpuid(LEAF_FEATURES, 0).ecx & LEAF_1_ECX_HYPERVISOR))
        return MEASURE_NATIVE;
    return l.ebx == KVM_SIGNATURE_EBX && l.ecx == KVM_SIGNATURE_ECX && l.edx == KVM_SIGNATURE_EDX
               ? MEASURE_KVM
               : MEASURE_OTHER;
}

void measure_platform(struct measure_environment *e, uint16_t pm1a_control)
{
    e->hypervisor = hypervisor();
    e->trapped_port = 0;
    if (e->hypervisor == MEASURE_KVM) {
        e->trapped_port = MEASURE_KVM_PORT;
        e->trapped_bytes = ELCR_BYTES;
        e->trapped_clear = 0;
    } else if (pm1a_control != 0) {
        e->trapped_port = pm1a_control;
        e->trapped_bytes = PM1_BYTES;
        e->trapped_clear = MEASURE_PM1_CLEAR;
    }
}
