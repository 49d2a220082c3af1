/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The choice of VMX controls, on machines made up here. Bits are given by the SDM's numbers and not
 * by the constants of include/vmx.h, so that a wrong constant is found as well.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility"; "VM-Execution Control Fields".
 */
#include "unit.h"

#include "lib/refusal.h"
#include "vmx/capability.h"

#define BIT_OF(n) (UINT32_C(1) << (n))

/* A control: where it is, and the word by which a refusal has to name it. */
struct control {
    enum control_set set;
    unsigned bit;
    const char *name;
};

static const struct control needed[] = {
    {SET_PRIMARY, 31, "\"activate secondary controls\""},
    {SET_PRIMARY, 28, "\"use MSR bitmaps\""},
    {SET_PRIMARY, 25, "\"use I/O bitmaps\""},
    {SET_SECONDARY, 1, "\"enable EPT\""},
    {SET_SECONDARY, 7, "\"unrestricted guest\""},
    {SET_SECONDARY, 5, "\"enable VPID\""},
    {SET_EXIT, 2, "\"save debug controls\""},
    {SET_EXIT, 9, "\"host address-space size\""},
    {SET_EXIT, 18, "\"save IA32_PAT\""},
    {SET_EXIT, 19, "\"load IA32_PAT at exit\""},
    {SET_EXIT, 20, "\"save IA32_EFER\""},
    {SET_EXIT, 21, "\"load IA32_EFER at exit\""},
    {SET_ENTRY, 2, "\"load debug controls\""},
    {SET_ENTRY, 9, "\"IA-32e mode guest\""},
    {SET_ENTRY, 14, "\"load IA32_PAT at entry\""},
    {SET_ENTRY, 15, "\"load IA32_EFER at entry\""},
};

/* On where they are to be had, and each good without any other. */
static const struct control alone[] = {
    {SET_SECONDARY, 3, "enable RDTSCP"},
    {SET_SECONDARY, 6, "WBINVD exiting"},
    {SET_SECONDARY, 12, "enable INVPCID"},
    {SET_SECONDARY, 15, "ENCLS exiting"},
    {SET_SECONDARY, 20, "enable XSAVES/XRSTORS"},
    {SET_SECONDARY, 26, "enable user wait and pause"},
    {SET_PRIMARY, 17, "PEBS uses guest-physical addresses"},
};

/* For Intel PT: all of them, and bit 14 of IA32_VMX_MISC, or none. */
static const struct control for_pt[] = {
    {SET_SECONDARY, 19, "conceal VMX from PT"},
    {SET_SECONDARY, 24, "PT uses guest-physical addresses"},
    {SET_EXIT, 24, "conceal exits from PT"},
    {SET_EXIT, 25, "clear IA32_RTIT_CTL"},
    {SET_ENTRY, 17, "conceal entries from PT"},
    {SET_ENTRY, 18, "load IA32_RTIT_CTL"},
};
#define MISC_PT (UINT64_C(1) << 14)
#define MISC_WAIT_FOR_SIPI (UINT64_C(1) << 8)

/* One that loads the guest's state at entry, and one that takes it away at exit. */
static const struct pair {
    unsigned entry, exit;
} pairs[] = {
    {13, 12}, /* GLOBAL_CTRL */
    {16, 23}, /* BNDCFGS */
    {20, 28}, /* CET */
    {21, 26}, /* LBR_CTL */
};
#define ENTRY_LOAD_GLOBAL_CTRL_BIT 13
#define EXIT_LOAD_GLOBAL_CTRL_BIT 12
#define EXIT_SAVE_GLOBAL_CTRL_BIT 30

/* Off at the start; the monitor trap flag has to be there for single steps. */
#define MONITOR_TRAP_BIT 27

static const struct control unwanted[] = {
    {SET_PIN, 0, "\"external-interrupt exiting\""},
    {SET_PIN, 3, "\"NMI exiting\""},
    {SET_PRIMARY, 7, "\"HLT exiting\""},
    {SET_PRIMARY, 11, "\"RDPMC exiting\""},
    {SET_PRIMARY, 12, "\"RDTSC exiting\""},
    {SET_PRIMARY, 15, "\"CR3-load exiting\""},
    {SET_PRIMARY, 16, "\"CR3-store exiting\""},
    {SET_PRIMARY, 23, "\"MOV-DR exiting\""},
};

static const struct control ept_needed[] = {
    {0, 6, "4-level walk"},
    {0, 14, "write-back"},
    {0, 16, "2 MiB"},
    {0, 26, "INVEPT"},
};

#define BASIC_WRITE_BACK (UINT64_C(6) << 50) /* IA32_VMX_BASIC bits 53:50 */

/* Bits that must be 1: what processors with the "true" capability MSRs have. */
static const uint32_t forced[SET_COUNT] = {
    [SET_PIN] = 0x00000016,  [SET_PRIMARY] = 0x04006172, [SET_SECONDARY] = 0,
    [SET_EXIT] = 0x00036dfb, [SET_ENTRY] = 0x000011fb,
};

/* A machine that has everything. */
static struct vmx_capability full_machine(void)
{
    struct vmx_capability c = {.ept_vpid = UINT64_MAX,
                               .pmu_version = 4,
                               .basic = BASIC_WRITE_BACK,
                               .misc = MISC_PT | MISC_WAIT_FOR_SIPI,
                               .execute_disable = true};

    for (unsigned set = 0; set < SET_COUNT; set++)
        c.allowed[set] = (uint64_t)UINT32_MAX << 32 | forced[set];
    return c;
}

/* As the processor reports it: a control that may not be 1 need not be 1 either. */
static void take_away(struct vmx_capability *c, enum control_set set, unsigned bit)
{
    c->allowed[set] &= ~((uint64_t)BIT_OF(bit) << 32 | BIT_OF(bit));
}

static struct options options_with(bool pmu)
{
    struct options o;

    memset(&o, 0, sizeof(o));
    o.policy = POLICY_MSR_NMI;
    o.pmu = pmu;
    o.pt = true;
    return o;
}

static void choose(const struct vmx_capability *c, bool pmu, struct vmx_controls *controls)
{
    struct options o = options_with(pmu);
    struct refusal r = {.line = ""};

    memset(controls, 0xaa, sizeof(*controls));
    if (!vmx_controls_choose(c, &o, controls, &r))
        fail_msg("refused: %s", r.line);
    for (unsigned set = 0; set < SET_COUNT; set++) {
        uint32_t value = controls->value[set];
        assert_int_equal(value & (uint32_t)c->allowed[set], (uint32_t)c->allowed[set]);
        assert_int_equal(value & ~(uint32_t)(c->allowed[set] >> 32), 0);
    }
}

static bool is_on(const struct vmx_controls *controls, enum control_set set, unsigned bit)
{
    return controls->value[set] & BIT_OF(bit);
}

static void assert_refused(const struct vmx_capability *c, const char *name, unsigned bit)
{
    struct options o = options_with(true);
    struct vmx_controls controls;
    struct refusal r = {.kind = REFUSE_BAD_OPTION, .line = ""};
    char number[16];

    if (vmx_controls_choose(c, &o, &controls, &r))
        fail_msg("%s: not refused", name);
    assert_int_equal(r.kind, REFUSE_UNSUPPORTED);
    assert_contains(r.line, name);
    assert_null(strchr(r.line, '\n'));
    snprintf(number, sizeof(number), "bit %u ", bit);
    if (name[0] == '"' && strstr(r.line, number) == NULL)
        fail_msg("the bit %u is not named: %s", bit, r.line);
}

/* ---- the tests ---- */

TEST(test_adjust_truth_table)
{
    for (unsigned n = 0; n < 32; n++) {
        uint64_t must = BIT_OF(n), may = (uint64_t)BIT_OF(n) << 32;
        uint32_t others = ~BIT_OF(n);
        uint64_t others_may = (uint64_t)others << 32;

        assert_int_equal(vmx_adjust_controls(0, BIT_OF(n)), 0);
        assert_int_equal(vmx_adjust_controls(may, 0), 0);
        assert_int_equal(vmx_adjust_controls(may, BIT_OF(n)), BIT_OF(n));
        assert_int_equal(vmx_adjust_controls(may | must, 0), BIT_OF(n));
        assert_int_equal(vmx_adjust_controls(may | must, BIT_OF(n)), BIT_OF(n));
        /* A bit decides about no other. */
        assert_int_equal(vmx_adjust_controls(others_may, UINT32_MAX), others);
        assert_int_equal(vmx_adjust_controls(may | others_may | must, others), UINT32_MAX);
    }
}

TEST(test_allows_each_bit_of_each_set)
{
    for (unsigned set = 0; set < SET_COUNT; set++) {
        for (unsigned n = 0; n < 32; n++) {
            struct vmx_capability c = {.basic = 0};
            c.allowed[set] = (uint64_t)BIT_OF(n) << 32;
            for (unsigned other = 0; other < SET_COUNT; other++)
                assert_int_equal(vmx_allows_control(&c, other, BIT_OF(n)), other == set);
            c.allowed[set] = BIT_OF(n); /* the lower half says "must", and nothing on "may" */
            assert_false(vmx_allows_control(&c, set, BIT_OF(n)));
        }
    }
}

/* All that is wanted is on, and not a bit besides it: what nobody handles may not exit. */
TEST(test_full_machine)
{
    struct vmx_capability c = full_machine();
    struct vmx_controls controls;
    uint32_t expected[SET_COUNT];

    memcpy(expected, forced, sizeof(expected));
    for (unsigned i = 0; i < COUNT(needed); i++)
        expected[needed[i].set] |= BIT_OF(needed[i].bit);
    for (unsigned i = 0; i < COUNT(alone); i++)
        expected[alone[i].set] |= BIT_OF(alone[i].bit);
    for (unsigned i = 0; i < COUNT(for_pt); i++)
        expected[for_pt[i].set] |= BIT_OF(for_pt[i].bit);
    for (unsigned i = 0; i < COUNT(pairs); i++) {
        expected[SET_ENTRY] |= BIT_OF(pairs[i].entry);
        expected[SET_EXIT] |= BIT_OF(pairs[i].exit);
    }
    expected[SET_EXIT] |= BIT_OF(EXIT_SAVE_GLOBAL_CTRL_BIT);

    choose(&c, true, &controls);
    for (unsigned set = 0; set < SET_COUNT; set++)
        assert_int_equal(controls.value[set], expected[set]);
}

/* Nothing but what is needed: that is enough. */
TEST(test_poorest_machine)
{
    struct vmx_capability c = {
        .basic = BASIC_WRITE_BACK, .misc = MISC_WAIT_FOR_SIPI, .execute_disable = true};
    struct vmx_controls controls;
    uint32_t expected[SET_COUNT];

    memcpy(expected, forced, sizeof(expected));
    for (unsigned i = 0; i < COUNT(needed); i++)
        expected[needed[i].set] |= BIT_OF(needed[i].bit);
    for (unsigned set = 0; set < SET_COUNT; set++)
        c.allowed[set] = (uint64_t)expected[set] << 32 | forced[set];
    c.allowed[SET_PRIMARY] |= (uint64_t)BIT_OF(MONITOR_TRAP_BIT) << 32;
    for (unsigned i = 0; i < COUNT(ept_needed); i++)
        c.ept_vpid |= UINT64_C(1) << ept_needed[i].bit;

    choose(&c, true, &controls);
    for (unsigned set = 0; set < SET_COUNT; set++)
        assert_int_equal(controls.value[set], expected[set]);
}

TEST(test_each_needed_control)
{
    for (unsigned i = 0; i < COUNT(needed); i++) {
        struct vmx_capability c = full_machine();
        take_away(&c, needed[i].set, needed[i].bit);
        assert_refused(&c, needed[i].name, needed[i].bit);
    }
    for (unsigned i = 0; i < COUNT(ept_needed); i++) {
        struct vmx_capability c = full_machine();
        c.ept_vpid &= ~(UINT64_C(1) << ept_needed[i].bit);
        assert_refused(&c, ept_needed[i].name, ept_needed[i].bit);
    }
    struct vmx_capability c = full_machine();
    take_away(&c, SET_PRIMARY, MONITOR_TRAP_BIT);
    assert_refused(&c, "\"monitor trap flag\"", MONITOR_TRAP_BIT);
    c = full_machine();
    c.misc = ~MISC_WAIT_FOR_SIPI;
    assert_refused(&c, "wait-for-SIPI activity state", 0);
}

TEST(test_each_control_that_must_be_off)
{
    for (unsigned i = 0; i < COUNT(unwanted); i++) {
        struct vmx_capability c = full_machine();
        c.allowed[unwanted[i].set] |= BIT_OF(unwanted[i].bit);
        assert_refused(&c, unwanted[i].name, unwanted[i].bit);
    }
}

/* Processors without the "true" MSRs force CR3 exiting. */
TEST(test_old_capability_msrs)
{
    struct vmx_capability c = full_machine();

    c.allowed[SET_PRIMARY] |= 0x0401e172;
    assert_refused(&c, "\"CR3-load exiting\"", 15);
}

TEST(test_each_optional_control)
{
    for (unsigned i = 0; i < COUNT(alone); i++) {
        struct vmx_capability c = full_machine();
        struct vmx_controls all, less;

        choose(&c, true, &all);
        take_away(&c, alone[i].set, alone[i].bit);
        choose(&c, true, &less);
        for (unsigned set = 0; set < SET_COUNT; set++) {
            uint32_t gone = set == alone[i].set ? BIT_OF(alone[i].bit) : 0;
            assert_int_equal(less.value[set], all.value[set] & ~gone);
        }
    }
}

/* How many of Intel PT's controls are on. */
static unsigned pt_controls(const struct vmx_capability *c, bool pt)
{
    struct options o = options_with(true);
    struct vmx_controls controls;
    struct refusal r = {.line = ""};
    unsigned on = 0;

    o.pt = pt;
    if (!vmx_controls_choose(c, &o, &controls, &r))
        fail_msg("refused: %s", r.line);
    for (unsigned i = 0; i < COUNT(for_pt); i++)
        on += is_on(&controls, for_pt[i].set, for_pt[i].bit);
    return on;
}

/* One less, and root mode would be in a trace, or a trace past the EPT. */
TEST(test_pt_whole_or_not)
{
    struct vmx_capability c = full_machine();

    assert_int_equal(pt_controls(&c, true), COUNT(for_pt));
    assert_int_equal(pt_controls(&c, false), 0);
    c.misc &= ~MISC_PT;
    assert_int_equal(pt_controls(&c, true), 0);
    for (unsigned i = 0; i < COUNT(for_pt); i++) {
        c = full_machine();
        take_away(&c, for_pt[i].set, for_pt[i].bit);
        assert_int_equal(pt_controls(&c, true), 0);
    }
}

TEST(test_pairs_only_together)
{
    for (unsigned i = 0; i < COUNT(pairs); i++) {
        for (unsigned half = 0; half < 2; half++) {
            struct vmx_capability c = full_machine();
            struct vmx_controls controls;

            if (half == 0)
                take_away(&c, SET_ENTRY, pairs[i].entry);
            else
                take_away(&c, SET_EXIT, pairs[i].exit);
            choose(&c, true, &controls);
            for (unsigned j = 0; j < COUNT(pairs); j++) {
                assert_int_equal(is_on(&controls, SET_ENTRY, pairs[j].entry), i != j);
                assert_int_equal(is_on(&controls, SET_EXIT, pairs[j].exit), i != j);
            }
        }
    }
}

/* Saving GLOBAL_CTRL is newer than loading it, and of no use without that. */
TEST(test_save_global_ctrl)
{
    struct vmx_capability c = full_machine();
    struct vmx_controls controls;

    take_away(&c, SET_EXIT, EXIT_SAVE_GLOBAL_CTRL_BIT);
    choose(&c, true, &controls);
    assert_false(is_on(&controls, SET_EXIT, EXIT_SAVE_GLOBAL_CTRL_BIT));
    assert_true(is_on(&controls, SET_EXIT, EXIT_LOAD_GLOBAL_CTRL_BIT));
    assert_true(is_on(&controls, SET_ENTRY, ENTRY_LOAD_GLOBAL_CTRL_BIT));

    c = full_machine();
    take_away(&c, SET_ENTRY, ENTRY_LOAD_GLOBAL_CTRL_BIT);
    choose(&c, true, &controls);
    assert_false(is_on(&controls, SET_EXIT, EXIT_SAVE_GLOBAL_CTRL_BIT));

    c = full_machine();
    take_away(&c, SET_EXIT, EXIT_LOAD_GLOBAL_CTRL_BIT);
    choose(&c, true, &controls);
    assert_false(is_on(&controls, SET_EXIT, EXIT_SAVE_GLOBAL_CTRL_BIT));
}

TEST(test_global_ctrl_erratum)
{
    /* CPUID.1:EAX: Nehalem and Westmere by model, then others that differ in one part. */
    static const uint32_t broken[] = {0x106a5, 0x106e5, 0x206e6, 0x20655, 0x206c2};
    static const uint32_t sound[] = {0x206a7, 0x50654, 0x006a5, 0x00f25, 0x806f8, 0x20f2c};
    struct vmx_capability c = full_machine();
    struct vmx_controls controls;

    for (unsigned i = 0; i < COUNT(broken); i++)
        assert_true(has_global_ctrl_erratum(broken[i]));
    for (unsigned i = 0; i < COUNT(sound); i++)
        assert_false(has_global_ctrl_erratum(sound[i]));

    c.global_ctrl_erratum = true;
    choose(&c, true, &controls);
    assert_false(is_on(&controls, SET_ENTRY, ENTRY_LOAD_GLOBAL_CTRL_BIT));
    assert_false(is_on(&controls, SET_EXIT, EXIT_LOAD_GLOBAL_CTRL_BIT));
    assert_false(is_on(&controls, SET_EXIT, EXIT_SAVE_GLOBAL_CTRL_BIT));
}

/* Any other control that is forced: refused, unless it is reserved or wanted anyway. */
TEST(test_each_forced_control)
{
    static const uint32_t default1[SET_COUNT] = {
        [SET_PIN] = 0x16,     [SET_PRIMARY] = 0x04006172, [SET_SECONDARY] = 0,
        [SET_EXIT] = 0x36dff, [SET_ENTRY] = 0x11ff,
    };
    struct vmx_capability c = full_machine();
    struct vmx_controls all;
    unsigned refused = 0;

    choose(&c, true, &all);
    for (unsigned set = 0; set < SET_COUNT; set++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            struct vmx_controls controls;

            c = full_machine();
            c.allowed[set] |= BIT_OF(bit);
            if ((all.value[set] | default1[set]) & BIT_OF(bit)) {
                choose(&c, true, &controls);
                continue;
            }
            assert_refused(&c, "cannot be turned off", 0);
            refused++;
        }
    }
    assert_true(refused > COUNT(unwanted));
}

/* RDPMC exiting is on with pmu=off and with policy=intercept. */
TEST(test_forced_rdpmc_exiting)
{
    struct vmx_capability c = full_machine();
    struct options o = options_with(true);
    struct vmx_controls controls;
    struct refusal r = {.line = ""};

    c.allowed[SET_PRIMARY] |= BIT_OF(11);
    assert_false(vmx_controls_choose(&c, &o, &controls, &r));
    o.pmu = false;
    assert_true(vmx_controls_choose(&c, &o, &controls, &r));
    assert_true(is_on(&controls, SET_PRIMARY, 11));
    o.pmu = true;
    o.policy = POLICY_INTERCEPT;
    assert_true(vmx_controls_choose(&c, &o, &controls, &r));
}

TEST(test_memory_type_and_execute_disable)
{
    struct vmx_capability c = full_machine();

    c.basic = 0; /* uncacheable */
    assert_refused(&c, "write-back memory for VMX's structures is missing", 0);
    c = full_machine();
    c.execute_disable = false;
    assert_refused(&c, "Execute Disable", 0);
}

TEST(test_pmu_off)
{
    struct vmx_capability c = full_machine();
    struct vmx_controls on, off;

    choose(&c, true, &on);
    choose(&c, false, &off);
    on.value[SET_ENTRY] &= ~BIT_OF(ENTRY_LOAD_GLOBAL_CTRL_BIT);
    on.value[SET_EXIT] &= ~(BIT_OF(EXIT_LOAD_GLOBAL_CTRL_BIT) | BIT_OF(EXIT_SAVE_GLOBAL_CTRL_BIT));
    for (unsigned i = 0; i < COUNT(for_pt);
         i++) /* its PMI would show in a register that is hidden */
        on.value[for_pt[i].set] &= ~BIT_OF(for_pt[i].bit);
    for (unsigned set = 0; set < SET_COUNT; set++)
        assert_int_equal(off.value[set], on.value[set]);
}
