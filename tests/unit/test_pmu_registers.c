/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which counters CPUID's leaves 0AH and 23H name, and which MSRs hold them. SDM Vol. 2, "CPUID";
 * Vol. 3, "Architectural Performance Monitoring Version 5"; Vol. 4 for the numbers, written down
 * here once more.
 */
#include "unit.h"

#include "pmu/pmu.h"

#define FW_WRITE (1u << 13)

/* What pmu_registers.c calls of vmx/exit/msr.c, which another test has. */
void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write);
void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write)
{
    assert_true(bitmap == NULL && first <= last && read && write);
}

TEST(test_facts)
{
    static const struct {
        struct cpuid_result leaf_0a, leaf_23;
        uint32_t general, fixed;
    } rows[] = {
        {{.eax = 0x07300402, .edx = 0x603}, {0}, 0xf, 0x7},
        {{.eax = 0x07300403, .edx = 0}, {0}, 0xf, 0},
        {{.eax = 0x07300803, .edx = 0x603}, {0}, 0xff, 0x7},
        {{.eax = 0x07300404, .edx = 0x603}, {0}, 0xf, 0x7},
        /* Ice Lake's fourth fixed counter; then one that ECX alone names, and both. */
        {{.eax = 0x08300805, .ecx = 0xf, .edx = 0x8604}, {0}, 0xff, 0xf},
        {{.eax = 0x08300805, .ecx = 0x20, .edx = 0x8603}, {0}, 0xff, 0x27},
        {{.eax = 0x08300805, .ecx = 0x8020, .edx = 0x8600}, {0}, 0xff, 0x8020},
        {{.eax = 0x0830ff05, .edx = 0x861f}, {0}, 0xffffffff, 0x7fffffff},
        /* Leaf 23H says it all, gaps included. */
        {{.eax = 0x08300806, .ecx = 0x7, .edx = 0x8603},
         {.eax = 0xfbcf, .ebx = 0x802f},
         0xfbcf,
         0x802f},
        {{.eax = 0x08300806, .ecx = 0x77, .edx = 0x8603}, {.eax = 0xff, .ebx = 0x17}, 0xff, 0x17},
    };

    for (unsigned i = 0; i < COUNT(rows); i++) {
        struct pmu_facts f = pmu_decode_facts(
            &rows[i].leaf_0a, rows[i].leaf_23.eax != 0 ? &rows[i].leaf_23 : NULL, i);
        assert_int_equal(f.version, rows[i].leaf_0a.eax & 0xff);
        assert_int_equal(f.general, rows[i].general);
        assert_int_equal(f.fixed, rows[i].fixed);
        assert_int_equal(f.capabilities, i);
    }
}

/* Whether an access to the register exits. */
static bool traps(bool pmu, enum policy policy, bool arch_lbr, uint32_t index)
{
    struct boot_info *boot = test_calloc(1, sizeof(*boot));
    struct cpu *cpu = test_calloc(1, sizeof(*cpu));

    boot->options.pmu = pmu;
    boot->options.policy = policy;
    cpu->boot = boot;
    pmu_trap_setup(cpu, arch_lbr);
    bool result = pmu_is_trapped(cpu, index);
    test_free(cpu);
    test_free(boot);
    return result;
}

static bool listed(const struct pmu_facts *facts, uint32_t index)
{
    uint32_t list[PMU_CONTEXT_MAX], first[PMU_CONTEXT_MAX];
    unsigned counting = pmu_list_msrs(facts, false, first),
             count = pmu_list_msrs(facts, true, list);
    unsigned found = 0;

    assert_true(counting < count);
    assert_memory_equal(list, first, counting * sizeof(list[0]));
    for (unsigned i = 0; i < count; i++)
        found += list[i] == index;
    bool trace = index >= 0x560 && index <= 0x587; /* Intel PT's exit by rules of their own */
    if (found != 0 && !trace)                      /* what is switched is trapped as well */
        assert_true(traps(true, POLICY_INTERCEPT, true, index));
    assert_true(found <= 1);
    return found == 1;
}

/* Counter n of either kind, by the names that the version has for it, and by no other. */
static void check_names(unsigned version, bool full, uint32_t general, uint32_t fixed)
{
    struct pmu_facts f = {version, general, fixed, full ? FW_WRITE : 0};
    bool new = version >= 6;

    for (unsigned n = 0; n < 32; n++) {
        bool has = general >> n & 1, legacy = has && !new && n < 10;
        if (n < 10) {
            assert_int_equal(listed(&f, 0x186 + n), legacy);
            assert_int_equal(listed(&f, 0x0c1 + n), legacy && !full);
            assert_int_equal(listed(&f, 0x4c1 + n), legacy && full);
        }
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(listed(&f, 0x1900 + 4 * n + i), has && new);
        has = fixed >> n & 1;
        if (n < 16)
            assert_int_equal(listed(&f, 0x309 + n), has && !new);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(listed(&f, 0x1980 + 4 * n + i), has && new);
    }
    static const uint32_t always[] = {
        0x38d,  0x329,  0x3f1,  0x3f2,  0x3f4,  0x3f5,  0x3f6, 0x3f7, 0x600, 0x1a6, 0x1a7, 0x3e0,
        0x3e3,  0x1328, 0x1329, 0x1c8,  0x1c9,  0x680,  0x69f, 0x6c0, 0x6df, 0xdc0, 0xddf, 0x14cf,
        0x1200, 0x121f, 0x1500, 0x151f, 0x1600, 0x161f, 0x560, 0x561, 0x571, 0x572, 0x580, 0x587};
    static const uint32_t never[] = {0x345, 0x38e, 0x38f, 0x390, 0x391,
                                     0x392, 0x3f3, 0x1d9, 0x14ce};
    for (unsigned i = 0; i < COUNT(always); i++)
        assert_true(listed(&f, always[i]));
    for (unsigned i = 0; i < COUNT(never); i++)
        assert_false(listed(&f, never[i]));
}

TEST(test_names)
{
    check_names(2, false, 0x3, 0x7);
    check_names(4, true, 0xf, 0x7);
    check_names(4, false, 0xf, 0x7);
    check_names(5, true, 0x3ff, 0x8027);
    check_names(6, true, 0xfbcf, 0x802f);
    check_names(6, true, 0xffffffff, 0xffffffff);
}

/* What work that only counts has switched: not the buffer's registers, and no branch records; but
 * what enables PEBS. */
TEST(test_counting)
{
    static const uint32_t rest[] = {0x3f2, 0x3f4, 0x3f6, 0x600,  0x1309, 0x14c1, 0x1c8, 0x1c9,
                                    0x680, 0x6c0, 0xdc0, 0x14cf, 0x1500, 0x1600, 0x1200};
    struct pmu_facts f = {4, 0xf, 0x7, FW_WRITE};
    uint32_t list[PMU_CONTEXT_MAX];
    unsigned count = pmu_list_msrs(&f, false, list), pebs = 0;

    for (unsigned i = 0; i < count; i++) {
        pebs += list[i] == 0x3f1;
        for (unsigned n = 0; n < COUNT(rest); n++)
            assert_int_not_equal(list[i], rest[n]);
    }
    assert_int_equal(pebs, 1);
}

/* Branch records exit with policy=intercept, the architectural ones where CPUID shows them; those
 * of a processor's PMU with pmu=off, too. */
TEST(test_traps)
{
    static const uint32_t rings[] = {0x1c8, 0x1c9, 0x680, 0x6c0, 0xdc0};
    static const uint32_t architectural[] = {0x14cf, 0x1500, 0x1600, 0x1200};

    for (unsigned i = 0; i < COUNT(rings); i++) {
        assert_true(traps(true, POLICY_INTERCEPT, false, rings[i]));
        assert_false(traps(true, POLICY_MSR, false, rings[i]));
        assert_false(traps(false, POLICY_INTERCEPT, false, rings[i]));
    }
    for (unsigned i = 0; i < COUNT(architectural); i++) {
        assert_true(traps(true, POLICY_INTERCEPT, true, architectural[i]));
        assert_false(traps(true, POLICY_INTERCEPT, false, architectural[i]));
        assert_false(traps(true, POLICY_MSR_NMI, true, architectural[i]));
        assert_false(traps(false, POLICY_MSR, true, architectural[i]));
    }
    assert_true(traps(true, POLICY_INTERCEPT, false, 0x600));
    assert_true(traps(false, POLICY_MSR, false, 0x600));
    assert_false(traps(true, POLICY_MSR, false, 0x600));
}

TEST(test_room)
{
    struct pmu_facts f = {6, 0xffffffff, 0xffffffff, FW_WRITE};
    uint32_t list[PMU_CONTEXT_MAX];

    assert_true(pmu_list_msrs(&f, true, list) < PMU_CONTEXT_MAX);
    f.version = 5;
    assert_true(pmu_list_msrs(&f, true, list) < PMU_CONTEXT_MAX);
}
