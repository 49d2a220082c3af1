/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds features of this processor that this version does not know. CPUID shows a guest every
 * feature that no table of vmx/exit/cpuid.c hides. If a feature came later, nobody has checked what
 * VMX does with it. Reads CPUID. SDM Vol. 1, "Processor Identification and Feature Determination";
 * for bits that the SDM does not name yet, Linux, tools/arch/x86/kcpuid/cpuid.csv.
 */
#include "boot/features.h"

#include "bits.h"
#include "console/log.h"
#include "x86.h"

/* The leaves that grow, and their known bits, whether shown or hidden. */
static const struct {
    uint32_t leaf;
    uint32_t subleaf;
    uint32_t known[4]; /* bits of EAX, EBX, ECX, EDX */
} leaves[] = {
    {CPUID_LEAF_EXTENDED,
     1,
     {BITS(8, 0) | BITS(12, 10) | BITS(23, 17) | BITS(27, 26) | BITS(31, 30), BITS(1, 0) | BIT(3),
      BITS(1, 0) | BIT(5),
      BITS(5, 4) | BIT(8) | BIT(10) | BITS(15, 13) | BITS(19, 17) | BITS(24, 21)}},
    {CPUID_LEAF_EXTENDED, 2, {0, 0, 0, BITS(7, 0)}},
    /* EBX is a size. ECX and EDX list the bits of IA32_XSS. */
    {CPUID_LEAF_XSAVE, 1, {BITS(4, 0), BITS(31, 0), BIT(8) | BITS(16, 10), 0}},
    {CPUID_LEAF_PMU_EXTENDED, 0, {BITS(5, 0), BITS(2, 0), 0, 0}},
};

void features_print_unknown(void)
{
    const char *words = "CPUID has bits that this version does not know:", *end = "";

    for (unsigned i = 0; i < LENGTH_OF(leaves); i++) {
        struct cpuid_result r = cpuid(leaves[i].leaf, leaves[i].subleaf);
        const uint32_t found[] = {r.eax, r.ebx, r.ecx, r.edx};

        for (unsigned reg = 0; reg < LENGTH_OF(found) && leaves[i].leaf <= cpuid(0, 0).eax; reg++) {
            uint32_t unknown = found[reg] & ~leaves[i].known[reg];
            if (unknown == 0)
                continue;
            log_printf("%s 0x%x.%u:E%cX 0x%x", words, leaves[i].leaf, leaves[i].subleaf,
                       "ABCD"[reg], unknown);
            words = "";
            end = "\n";
        }
    }
    log_printf("%s", end);
}
