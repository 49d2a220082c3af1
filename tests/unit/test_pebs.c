/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which processors have their PEBS switched: signatures (CPUID.1:EAX) of real ones with microcode
 * before, at and after the revision from which Linux takes it for isolated.
 */
#include "unit.h"

#include "pmu/pmu.h"
#include "vmx/root/fault.h"

#define NEVER UINT32_MAX

/* What pebs.c calls to look at the processor, which is not asked here. */
bool rdmsr_safe(uint32_t index, uint64_t *value) { return index + *value == 0; }
bool wrmsr_safe(uint32_t index, uint64_t value) { return index + value == 0; }

static const struct {
    uint32_t version, signature, from;
} rows[] = {
    {3, 0x306c3, 0x1f},                           /* Haswell */
    {3, 0x306c2, NEVER},      {3, 0x40651, 0x1e}, /* Haswell L */
    {3, 0x40661, 0x15},                           /* Haswell G */
    {3, 0x306f2, 0x37},                           /* Haswell X, EX: 4 */
    {3, 0x306f3, NEVER},      {3, 0x306f4, 0x0a},
    {3, 0x306d4, 0x23}, /* Broadwell */
    {3, 0x40671, 0x14}, /* Broadwell G */
    {3, 0x50662, 0x10}, /* Broadwell D */
    {3, 0x50663, 0x07000009}, {3, 0x50664, 0x0f000009},
    {3, 0x50665, 0x0e000002}, {3, 0x406f1, 0x0b000014}, /* Broadwell X */
    {4, 0x50653, 0x21},                                 /* Skylake X */
    {4, 0x50652, NEVER},      {4, 0x50654, 0},
    {4, 0x50657, 0},                              /* Cascade Lake */
    {4, 0x50658, NEVER},      {4, 0x5065b, 0},    /* Cooper Lake */
    {4, 0x5065c, NEVER},      {4, 0x406e3, 0x7c}, /* Skylake L */
    {4, 0x506e3, 0x7c},                           /* Skylake */
    {4, 0x806e9, 0x4e},                           /* Kaby Lake L to Whiskey Lake */
    {4, 0x806ec, 0x4e},       {4, 0x806ed, NEVER},
    {4, 0x906e9, 0x4e}, /* Kaby Lake to Coffee Lake R */
    {4, 0x906ed, 0x4e},       {4, 0x906ee, NEVER},
    {4, 0xa0655, NEVER}, /* Comet Lake */
    {4, 0x506c9, NEVER}, /* Goldmont */
    {3, 0x206a7, NEVER}, /* Sandy Bridge */
    {3, 0x106a5, NEVER}, /* Nehalem */
    {4, 0x00f43, NEVER}, /* another family, with Haswell's model number's low half */
    {5, 0x606a6, 0},     /* Ice Lake X: by its version */
    {5, 0x806f8, 0},          {6, 0xc0660, 0},
};

TEST(test_rows)
{
    static const uint32_t microcodes[] = {0,          1,          0x09,      0x0a,     0x0b,
                                          0x13,       0x4d,       0x4e,      0x7b,     0x7c,
                                          0x07000008, 0x0b000013, 0x2000065, NEVER - 1};

    for (unsigned i = 0; i < COUNT(rows); i++) {
        uint32_t version = rows[i].version, signature = rows[i].signature, from = rows[i].from;

        for (unsigned m = 0; m < COUNT(microcodes); m++)
            if (pebs_is_isolated(version, signature, microcodes[m]) != (microcodes[m] >= from))
                fail_msg("signature 0x%x, microcode 0x%x", signature, microcodes[m]);
        if (from == NEVER)
            continue;
        assert_true(pebs_is_isolated(version, signature, from));
        assert_int_equal(pebs_is_isolated(version, signature, from - 1), from == 0);
    }
}
