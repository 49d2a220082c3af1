/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The MSR bitmap: every index of both ranges against the SDM's layout, written down here once more,
 * the borders, and what pmu=off hides in it.
 * SDM Vol. 3, "MSR-Bitmap Address"; Vol. 4 for the numbers of the PMU's registers.
 */
#define TEARDOWN free_bitmaps
#include "unit.h"

#include "apic/apic.h"
#include "pmu/pmu.h"
#include "vmx/capability.h"
#include "vmx/exit/exit.h"
#include "vmx/msr_bitmap.h"
#include "vmx/root/fault.h"
#include "vmx/start/start.h"

#define BITMAP_BYTES 4096
#define LOW_LAST 0x1fffu
#define HIGH_FIRST 0xc0000000u
#define HIGH_LAST 0xc0001fffu

/* The four parts, by their place in the page. */
#define READ_LOW 0
#define READ_HIGH 1024
#define WRITE_LOW 2048
#define WRITE_HIGH 3072

static const uint32_t outside[] = {
    LOW_LAST + 1, 0x4000,         0x10000,       0x40000000, 0x7fffffff,
    0x80000000,   HIGH_FIRST - 1, HIGH_LAST + 1, 0xc0010015, UINT32_MAX,
};

/* Whether an access exits; outside of the two ranges all do. */
static bool msr_bitmap_exits(const uint8_t *bitmap, uint32_t index, bool write)
{
    uint32_t bit = index >= HIGH_FIRST ? index - HIGH_FIRST : index;

    if (bit > LOW_LAST)
        return true;
    bitmap += index >= HIGH_FIRST ? (write ? WRITE_HIGH : READ_HIGH) : write ? WRITE_LOW : READ_LOW;
    return bitmap[bit / 8] >> bit % 8 & 1;
}

static uint8_t *bitmaps[4];
static unsigned bitmap_count;

/* Exactly one page each, on the heap: AddressSanitizer sees a step over either end. */
static uint8_t *new_bitmap(void)
{
    uint8_t *bitmap = calloc(1, BITMAP_BYTES);

    assert_true(bitmap != NULL && bitmap_count < COUNT(bitmaps));
    bitmaps[bitmap_count++] = bitmap;
    return bitmap;
}

static int free_bitmaps(void **state)
{
    (void)state;
    while (bitmap_count > 0)
        free(bitmaps[--bitmap_count]);
    return 0;
}

/* The SDM's layout: sets one bit where `index` has one. */
static void model_set(uint8_t *bitmap, uint32_t index, bool write)
{
    uint32_t part, bit;

    if (index <= LOW_LAST) {
        part = write ? WRITE_LOW : READ_LOW;
        bit = index;
    } else if (index >= HIGH_FIRST && index <= HIGH_LAST) {
        part = write ? WRITE_HIGH : READ_HIGH;
        bit = index & 0x1fff;
    } else {
        return;
    }
    bitmap[part + bit / 8] |= (uint8_t)(1 << bit % 8);
}

static void model_range(uint8_t *bitmap, uint32_t first, uint32_t last, bool read, bool write)
{
    for (uint64_t index = first; index <= last; index++) {
        if (read)
            model_set(bitmap, (uint32_t)index, false);
        if (write)
            model_set(bitmap, (uint32_t)index, true);
    }
}

typedef void (*each_index)(uint32_t index, void *context);

static void for_both_ranges(each_index function, void *context)
{
    for (uint32_t i = 0; i <= LOW_LAST; i++) {
        function(i, context);
        function(HIGH_FIRST + i, context);
    }
}

/* ---- one index at a time ---- */

struct pair {
    uint8_t *found, *expected;
};

static void check_one_index(uint32_t index, void *context)
{
    struct pair *b = context;

    for (unsigned how = 0; how < 4; how++) {
        bool read = how & 1, write = how & 2;

        memset(b->found, 0, BITMAP_BYTES);
        memset(b->expected, 0, BITMAP_BYTES);
        msr_bitmap_set(b->found, index, index, read, write);
        model_range(b->expected, index, index, read, write);
        if (memcmp(b->found, b->expected, BITMAP_BYTES) != 0)
            fail_msg("MSR 0x%x, read %d, write %d: another bit than the SDM's", index, read, write);
        assert_int_equal(msr_bitmap_exits(b->found, index, false), read);
        assert_int_equal(msr_bitmap_exits(b->found, index, true), write);
        /* The index with the same bit in the other range is another one. */
        assert_false(msr_bitmap_exits(b->found, index ^ HIGH_FIRST, false));
        assert_false(msr_bitmap_exits(b->found, index ^ HIGH_FIRST, true));
    }
}

TEST(test_each_index_alone)
{
    struct pair b = {new_bitmap(), new_bitmap()};

    for_both_ranges(check_one_index, &b);
}

/* ---- what is in no range ---- */

static void check_passes(uint32_t index, void *bitmap)
{
    assert_false(msr_bitmap_exits(bitmap, index, false));
    assert_false(msr_bitmap_exits(bitmap, index, true));
}

static void check_exits(uint32_t index, void *bitmap)
{
    assert_true(msr_bitmap_exits(bitmap, index, false));
    assert_true(msr_bitmap_exits(bitmap, index, true));
}

TEST(test_empty_and_full)
{
    uint8_t *bitmap = new_bitmap();

    for_both_ranges(check_passes, bitmap);
    for (unsigned i = 0; i < COUNT(outside); i++)
        check_exits(outside[i], bitmap);

    msr_bitmap_set(bitmap, 0, LOW_LAST, true, true);
    msr_bitmap_set(bitmap, HIGH_FIRST, HIGH_LAST, true, true);
    for_both_ranges(check_exits, bitmap);
    for (unsigned i = 0; i < BITMAP_BYTES; i++)
        assert_int_equal(bitmap[i], 0xff);
}

TEST(test_outside_changes_nothing)
{
    uint8_t *bitmap = new_bitmap();
    uint8_t *zero = new_bitmap();

    for (unsigned i = 0; i < COUNT(outside); i++) {
        msr_bitmap_set(bitmap, outside[i], outside[i], true, true);
        assert_memory_equal(bitmap, zero, BITMAP_BYTES);
    }
}

/* ---- ranges ---- */

TEST(test_ranges_over_borders)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0},
        {0, 31},
        {5, 18},                        /* begins and ends inside a byte */
        {LOW_LAST - 15, LOW_LAST + 16}, /* over the end of the low range */
        {HIGH_FIRST - 16, HIGH_FIRST + 15},
        {HIGH_LAST - 15, HIGH_LAST + 16},
        {UINT32_MAX - 15, UINT32_MAX}, /* the loop has to end */
        {0x20, 0x1f},                  /* empty */
    };
    uint8_t *found = new_bitmap();
    uint8_t *expected = new_bitmap();

    for (unsigned i = 0; i < COUNT(ranges); i++) {
        for (unsigned how = 0; how < 4; how++) {
            memset(found, 0, BITMAP_BYTES);
            memset(expected, 0, BITMAP_BYTES);
            msr_bitmap_set(found, ranges[i].first, ranges[i].last, how & 1, how & 2);
            model_range(expected, ranges[i].first, ranges[i].last, how & 1, how & 2);
            assert_memory_equal(found, expected, BITMAP_BYTES);
        }
    }
}

/* A later range takes nothing back. */
TEST(test_ranges_add_up)
{
    uint8_t *found = new_bitmap();
    uint8_t *expected = new_bitmap();

    msr_bitmap_set(found, 0x100, 0x120, true, false);
    msr_bitmap_set(found, 0x110, 0x130, false, true);
    msr_bitmap_set(found, 0x118, 0x119, false, false);
    model_range(expected, 0x100, 0x120, true, false);
    model_range(expected, 0x110, 0x130, false, true);
    assert_memory_equal(found, expected, BITMAP_BYTES);
}

/* ---- pmu=off ---- */

/* What the handlers of vmx/exit/msr.c call: none of it is reached by setting the bitmap. */
bool rdmsr_safe(uint32_t index, uint64_t *value) { return index + *value == 0; }
bool wrmsr_safe(uint32_t index, uint64_t value) { return index + value == 0; }
bool rdpmc_safe(uint32_t index, uint64_t *value) { return index + *value == 0; }
bool pmu_is_rdpmc_user_disabled(uint32_t counter) { return counter == 0; }
bool pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    return cpu == NULL && index + *value == 0 && write;
}
bool pt_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    return pmu_access_register(cpu, index, value, write);
}
void inject_gp(void) {}
void complete_instruction(UNUSED const struct cpu *cpu) {}
_Noreturn void vmcs_access_failed(uint32_t encoding, bool write)
{
    fail_msg("%s of 0x%x", write ? "VMWRITE" : "VMREAD", encoding);
    abort();
}

static uint8_t *bitmap_with(bool pmu, enum policy policy, uint32_t primary, uint32_t entry)
{
    const uint32_t controls[SET_COUNT] = {[SET_PRIMARY] = primary, [SET_ENTRY] = entry};
    struct boot_info *boot = test_calloc(1, sizeof(*boot));
    struct cpu *cpu = test_calloc(1, sizeof(*cpu));

    boot->options.pmu = pmu;
    boot->options.policy = policy;
    cpu->boot = boot;
    cpu->msr_bitmap = new_bitmap();
    msr_setup(cpu, controls);
    uint8_t *bitmap = cpu->msr_bitmap;
    test_free(cpu);
    test_free(boot);
    return bitmap;
}

/* Where VMX translates what architectural PEBS writes (tertiary controls, of which only that is
 * used). */
static uint8_t *bitmap_of(bool pmu, enum policy policy)
{
    return bitmap_with(pmu, policy, 1u << 17, 0);
}

/* Without, a write of the buffer's address, IA32_PEBS_BASE, exits; nothing else does. */
TEST(test_pebs_past_the_ept)
{
    uint8_t *with = bitmap_of(true, POLICY_MSR_NMI),
            *without = bitmap_with(true, POLICY_MSR_NMI, 0, 0);

    assert_false(msr_bitmap_exits(with, 0x3f4, true));
    model_range(with, 0x3f4, 0x3f4, false, true);
    assert_memory_equal(with, without, BITMAP_BYTES);
}

/* Intel PT's registers are the guest's where the VM entry loads IA32_RTIT_CTL; else they exit, as
 * with policy=intercept. */
TEST(test_pt)
{
    uint8_t *absent = bitmap_of(true, POLICY_MSR_NMI);
    uint8_t *given = bitmap_with(true, POLICY_MSR_NMI, 1u << 17, 1u << 18);
    uint8_t *trapped = bitmap_with(true, POLICY_INTERCEPT, 1u << 17, 1u << 18);

    for (uint32_t index = 0x55f; index <= 0x588; index++)
        for (unsigned write = 0; write < 2; write++) {
            bool is_pt = index >= 0x560 && index <= 0x587;
            assert_int_equal(msr_bitmap_exits(absent, index, write), is_pt);
            assert_int_equal(msr_bitmap_exits(trapped, index, write), is_pt);
            assert_false(msr_bitmap_exits(given, index, write));
        }
    model_range(given, 0x560, 0x587, true, true);
    assert_memory_equal(given, absent, BITMAP_BYTES);
}

/* By number: what has to fault without a PMU, and neighbours and others that must not. */
TEST(test_pmu_by_number)
{
    static const uint32_t owned[] = {
        0x0c1,  0x0ca,                         /* IA32_PMC0, 9 */
        0x186,  0x18f,                         /* IA32_PERFEVTSEL0, 9 */
        0x1a6,  0x1a7,                         /* MSR_OFFCORE_RSP_0, 1 */
        0x309,  0x30a,  0x30b,  0x30c,  0x318, /* IA32_FIXED_CTR0 to 3, 15 */
        0x329,                                 /* MSR_PERF_METRICS */
        0x345,                                 /* IA32_PERF_CAPABILITIES */
        0x38d,  0x38e,  0x38f,  0x390,  0x391, /* IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_... */
        0x3f1,  0x3f2,  0x3f4,  0x3f5,  0x3f6, 0x3f7, /* PEBS */
        0x3e0,  0x3e3,  0x1328, 0x1329,               /* MSR_OMR_0 to 3, MSR_SNOOP_RSP_0, 1 */
        0x4c1,  0x4ca,                                /* IA32_A_PMC0, 9 */
        0x1309, 0x1318, 0x14c1, 0x14c8,               /* reload values of PEBS */
        0x600,                                        /* IA32_DS_AREA */
        0x392,                                        /* IA32_PERF_GLOBAL_INUSE */
        0x1900, 0x1901, 0x1980, 0x1983, /* IA32_PMC_GP0_CTR, its select, IA32_PMC_FX0_CTR, its last
                                         */
    };
    static const uint32_t others[] = {
        0x0c0,  0x0cb,  0x185,  0x190,      0x1a5,      0x1a8,      0x308,      0x328,      0x344,
        0x346,  0x38c,  0x3f0,  0x4c0,      0x4cb,      0x5ff,      0x601,      0x319,      0x393,
        0x1308, 0x1319, 0x14c0, 0x14c9,     0x18ff,     0x1a00, /* next to the above */
        0x000,  0x010,  0x01b,  0x03a,      0x079,      0x08b,      0x0fe,      0x174,      0x179,
        0x1a2,  0x1d9,  0x200,  0x277,      0x2ff,      0x480,      0x493,      0x6e0,      0x802,
        0x830,  0x834,  0xda0,  0xc0000080, 0xc0000081, 0xc0000101, 0xc0000102, 0xc0000103,
    };

    /* Branch records work without a PMU, and exit where it exits; the architectural ones only where
     * CPUID may show them, which it may not here. */
    static const uint32_t records[] = {0x1c8, 0x1c9, 0x680, 0x69f, 0x6c0, 0x6df, 0xdc0, 0xddf};
    static const uint32_t hidden[] = {0x14ce, 0x14cf, 0x1200, 0x121f,
                                      0x1500, 0x151f, 0x1600, 0x161f};

    uint8_t *off = bitmap_of(false, POLICY_MSR), *trapped = bitmap_of(true, POLICY_INTERCEPT);
    uint8_t *passed = bitmap_of(true, POLICY_MSR);

    for (unsigned i = 0; i < 2 * COUNT(owned); i++)
        if (!msr_bitmap_exits(off, owned[i / 2], i % 2) ||
            !msr_bitmap_exits(trapped, owned[i / 2], i % 2) ||
            msr_bitmap_exits(passed, owned[i / 2], i % 2))
            fail_msg("MSR 0x%x is the PMU's", owned[i / 2]);
    for (unsigned i = 0; i < 2 * COUNT(others); i++)
        if (msr_bitmap_exits(off, others[i / 2], i % 2) !=
            msr_bitmap_exits(passed, others[i / 2], i % 2))
            fail_msg("MSR 0x%x is not the PMU's", others[i / 2]);
    for (unsigned i = 0; i < 2 * COUNT(records); i++)
        if (msr_bitmap_exits(off, records[i / 2], i % 2) ||
            !msr_bitmap_exits(trapped, records[i / 2], i % 2) ||
            msr_bitmap_exits(passed, records[i / 2], i % 2))
            fail_msg("MSR 0x%x is of branch records", records[i / 2]);
    for (unsigned i = 0; i < 2 * COUNT(hidden); i++)
        if (!msr_bitmap_exits(off, hidden[i / 2], i % 2) ||
            !msr_bitmap_exits(passed, hidden[i / 2], i % 2))
            fail_msg("MSR 0x%x is of architectural branch records", hidden[i / 2]);
    /* IA32_MISC_ENABLE says whether there is a PMU. */
    assert_true(msr_bitmap_exits(off, 0x1a0, false) && msr_bitmap_exits(off, 0x1a0, true));
    assert_true(!msr_bitmap_exits(passed, 0x1a0, false) && msr_bitmap_exits(passed, 0x1a0, true));
}
