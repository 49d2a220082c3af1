/* SPDX-License-Identifier: BSD-2-Clause
 *
 * PEBS that is not isolated: the processor may write an event's record late, after an exit. The
 * record goes to a linear address, which is then translated by root mode's page tables. On
 * processors with such PEBS, and only there, the MSR lists make IA32_PEBS_ENABLE 0 in root mode.
 * KVM keeps its host's records out of guests in the same way. The lists do not stop a record that
 * is already on its way when the exit loads them. (According to KVM, PEBS needs a quiescent period
 * after it is turned off, and a switch by lists does not provide one.) SDM Vol. 3, "Processor Event
 * Based Sampling (PEBS)"; for the list of processors: Linux, isolation_ucodes[] and
 * intel_ds_init().
 */
#include "vmx/root/fault.h"
#include "pmu/pmu.h"

#define VERSION_ISOLATED 5 /* PEBS is isolated from this version on */
#define SKYLAKE_X 0x55

/* Models of family 6 that isolate PEBS from some microcode revision on. */
static const struct {
    uint8_t model;
    uint8_t first;      /* stepping */
    uint8_t last;       /* stepping */
    uint32_t microcode; /* the first revision that isolates */
} isolating[] = {
    {0x3c, 3, 3, 0x1f},       {0x45, 1, 1, 0x1e},       {0x46, 1, 1, 0x15}, /* Haswell */
    {0x3f, 2, 2, 0x37},       {0x3f, 4, 4, 0x0a},       {0x3d, 4, 4, 0x23},
    {0x47, 1, 1, 0x14},       {0x4f, 1, 1, 0x0b000014}, /* Broadwell */
    {0x56, 2, 2, 0x10},       {0x56, 3, 3, 0x07000009}, {0x56, 4, 4, 0x0f000009},
    {0x56, 5, 5, 0x0e000002}, {SKYLAKE_X, 3, 3, 0x21},  {SKYLAKE_X, 4, 7, 0},
    {SKYLAKE_X, 11, 11, 0},   {0x4e, 3, 3, 0x7c},       {0x5e, 3, 3, 0x7c}, /* Skylake */
    {0x8e, 9, 12, 0x4e},      {0x9e, 9, 13, 0x4e}, /* Kaby Lake and its successors */
};

bool pebs_is_isolated(unsigned version, uint32_t signature, uint32_t microcode)
{
    uint32_t stepping = SIGNATURE_STEPPING(signature);

    if (version >= VERSION_ISOLATED)
        return true;
    for (unsigned i = 0; i < LENGTH_OF(isolating); i++)
        if (SIGNATURE_FAMILY(signature) == 6 && SIGNATURE_MODEL(signature) == isolating[i].model &&
            stepping >= isolating[i].first && stepping <= isolating[i].last)
            return microcode >= isolating[i].microcode;
    return false;
}

/* SDM Vol. 4, "IA32_BIOS_SIGN_ID": software writes 0, then CPUID fills in the upper half. */
static uint32_t read_microcode_revision(void)
{
    (void)wrmsr_safe(IA32_BIOS_SIGN_ID, 0);
    (void)cpuid(1, 0);
    return (uint32_t)(rdmsr(IA32_BIOS_SIGN_ID) >> 32);
}

bool pebs_needs_switch(unsigned version)
{
    uint64_t misc, enable;

    return cpuid(1, 0).edx & CPUID_1_EDX_DS && rdmsr_safe(IA32_MISC_ENABLE, &misc) &&
           !(misc & MISC_ENABLE_PEBS_UNAVAILABLE) && rdmsr_safe(IA32_PEBS_ENABLE, &enable) &&
           !pebs_is_isolated(version, cpuid(1, 0).eax, read_microcode_revision());
}
