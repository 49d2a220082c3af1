/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies this processor's MTRRs. Only RDMSR and CPUID, nothing is changed; apart from mtrr.c so
 * that the arithmetic there also runs, and is tested, outside CPL 0.
 * SDM Vol. 3, "Memory Type Range Registers (MTRRs)", "MTRR Feature Identification".
 */
#include "mm.h"
#include "mtrr.h"
#include "x86.h"

#define CPUID_FEATURES 0x1u
#define CPUID_1_EDX_MTRR BIT(12)
#define CPUID_ADDRESS_SIZES 0x80000008u
#define CPUID_ADDRESS_SIZES_EAX_PHYSICAL BITS(7, 0)

static const uint32_t fixed_msr[] = {
    IA32_MTRR_FIX64K_00000,    IA32_MTRR_FIX16K_80000,    IA32_MTRR_FIX16K_A0000,
    IA32_MTRR_FIX4K_C0000,     IA32_MTRR_FIX4K_C0000 + 1, IA32_MTRR_FIX4K_C0000 + 2,
    IA32_MTRR_FIX4K_C0000 + 3, IA32_MTRR_FIX4K_C0000 + 4, IA32_MTRR_FIX4K_C0000 + 5,
    IA32_MTRR_FIX4K_C0000 + 6, IA32_MTRR_FIX4K_F8000,
};

_Static_assert(sizeof(fixed_msr) / sizeof(fixed_msr[0]) ==
                   sizeof(((struct mtrr_state *)0)->fixed) / sizeof(uint64_t),
               "one place for each fixed-range MTRR");

void mtrr_read(struct mtrr_state *m)
{
    *m = (struct mtrr_state){
        .physical_address_bits =
            cpuid(CPUID_ADDRESS_SIZES, 0).eax & CPUID_ADDRESS_SIZES_EAX_PHYSICAL,
    };
    if (!(cpuid(CPUID_FEATURES, 0).edx & CPUID_1_EDX_MTRR)) {
        /* Without MTRRs the paging structures alone set the type: the same as one type, WB. */
        m->default_type = MTRR_DEF_TYPE_E | MEMORY_WB;
        return;
    }
    m->capability = rdmsr(IA32_MTRRCAP);
    m->default_type = rdmsr(IA32_MTRR_DEF_TYPE);
    if (m->capability & MTRRCAP_FIX) {
        for (uint32_t i = 0; i < sizeof(fixed_msr) / sizeof(fixed_msr[0]); i++)
            m->fixed[i] = rdmsr(fixed_msr[i]);
    }
    m->variable_count = m->capability & MTRRCAP_VCNT;
    if (m->variable_count > MTRR_VARIABLE_MAX)
        m->variable_count = MTRR_VARIABLE_MAX; /* the MSR indices end there, too */
    for (uint32_t i = 0; i < m->variable_count; i++) {
        m->variable[i].base = rdmsr(IA32_MTRR_PHYSBASE0 + 2 * i);
        m->variable[i].mask = rdmsr(IA32_MTRR_PHYSMASK0 + 2 * i);
    }
}
