/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The TSC's frequency: what CPUID tells, and what timers give that run, wrap, stand still or go
 * wrong. Leaves and their registers are the SDM's numbers, not the constants of include/x86.h.
 */
#include "unit.h"

#include "vmx/start/tsc.h"

/* ---- CPUID ---- */

static struct {
    uint32_t last, features_ecx, hypervisor_last, hypervisor_khz, base_mhz;
    struct cpuid_result tsc;
} told;

/* As processors do, a leaf past the last one gives the last one's data. */
static struct cpuid_result ask(uint32_t leaf, uint32_t subleaf)
{
    assert_int_equal(subleaf, 0);
    if (leaf == 0)
        return (struct cpuid_result){.eax = told.last};
    if (leaf == 1)
        return (struct cpuid_result){.ecx = told.features_ecx};
    if (leaf == 0x40000000 && told.hypervisor_last != 0)
        return (struct cpuid_result){.eax = told.hypervisor_last};
    if (leaf == 0x40000010 && told.hypervisor_last >= leaf)
        return (struct cpuid_result){.eax = told.hypervisor_khz, .ebx = 1000000};
    if (leaf > told.last)
        return (struct cpuid_result){0x77777777, 0x77777777, 0x77777777, 0x77777777};
    if (leaf == 0x15)
        return told.tsc;
    return (struct cpuid_result){.eax = told.base_mhz | 0xabcd0000u, .ebx = 4000, .ecx = 100};
}

static void expect_told(uint64_t khz, uint32_t by)
{
    uint32_t leaf = 0;

    assert_int_equal(tsc_read_cpuid_khz(ask, &leaf), khz);
    if (khz != 0)
        assert_int_equal(leaf, by);
}

TEST(test_told)
{
    told.last = 0x16;
    told.base_mhz = 2200;
    told.tsc = (struct cpuid_result){2, 176, 25000000, 0}; /* a crystal of 25 MHz */
    expect_told(2200000, 0x15);
    told.tsc.ecx = 0; /* Skylake-SP does not tell the crystal */
    expect_told(2200000, 0x16);
    told.tsc = (struct cpuid_result){0, 176, 25000000, 0};
    expect_told(2200000, 0x16);
    told.base_mhz = 0;
    expect_told(0, 0);
    told.last = 0x14;
    expect_told(0, 0);
}

TEST(test_told_by_hypervisor)
{
    told.last = 0x0d;
    told.hypervisor_last = 0x40000010;
    told.hypervisor_khz = 2893202;
    told.features_ecx = 0;
    expect_told(0, 0); /* nobody says that these leaves are there */
    told.features_ecx = UINT32_C(1) << 31;
    expect_told(2893202, 0x40000010);
    told.hypervisor_last = 0x40000001;
    expect_told(0, 0);
    told.hypervisor_last = 0x40000082; /* it has another meaning for that leaf */
    told.hypervisor_khz = 0;
    expect_told(0, 0);
    told.hypervisor_khz = 2893202;
    told.last = 0x16; /* the processor's own leaves come first */
    told.base_mhz = 2900;
    told.tsc = (struct cpuid_result){0};
    expect_told(2900000, 0x16);
}

/* ---- timers ---- */

#define PORT 0x1808
static uint64_t now_ns; /* time goes on with each read */
static uint64_t read_ns, tsc_hz;
static uint32_t timer_hz, timer_offset;
static unsigned reads, stuck_after, jumps, bounce;

static uint64_t fake_tsc(void) { return now_ns * tsc_hz / 1000000000; }

static uint32_t fake_read(uint16_t port)
{
    assert_int_equal(port, PORT);
    reads++;
    if (jumps > 0 && reads % 4001 == 0 && jumps--)
        now_ns += 30000000; /* an SMI */
    if (stuck_after == 0 || reads < stuck_after)
        now_ns += read_ns;
    if (bounce)
        return timer_offset + reads % 2;
    return (uint32_t)(now_ns * timer_hz / 1000000000) + timer_offset;
}

static uint64_t measure(uint32_t hz, uint32_t mask, uint64_t of_tsc, uint64_t ns)
{
    const struct tsc_clock clock = {hz, mask, PORT, fake_read, fake_tsc};

    now_ns = reads = 0;
    timer_hz = hz;
    tsc_hz = of_tsc;
    read_ns = ns;
    return tsc_measure_khz(&clock);
}

static void expect_near(uint64_t khz, uint64_t wanted)
{
    assert_in_range(khz, wanted - wanted / 1000, wanted + wanted / 1000);
}

static void reset(void) { timer_offset = stuck_after = jumps = bounce = 0; }

TEST(test_measured)
{
    static const uint64_t frequencies[] = {50000000, 200000000, 2194843000, 5800000000};
    static const uint64_t times[] = {60, 700, 5000};

    reset();
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 3; k++)
            expect_near(measure(3579545, 0xffffff, frequencies[i], times[k]),
                        frequencies[i] / 1000);
    assert_true(now_ns < 60000000); /* five times 10 ms */
}

TEST(test_wraps)
{
    reset();
    timer_offset = 0xffffff - 20000; /* its upper bits change meanwhile, and it wraps */
    expect_near(measure(3579545, 0xffffff, 2000000000, 700), 2000000);
}

TEST(test_disturbed)
{
    reset();
    jumps = 2; /* of five measurements */
    expect_near(measure(3579545, 0xffffff, 2000000000, 700), 2000000);
    assert_int_equal(jumps, 0);
}

TEST(test_does_not_count)
{
    reset();
    stuck_after = 1; /* never */
    assert_int_equal(measure(3579545, 0xffffff, 2000000000, 700), 0);
    assert_true(reads < 20000);
    stuck_after = 5000; /* not for long */
    assert_int_equal(measure(3579545, 0xffffff, 2000000000, 700), 0);
    assert_true(reads < 20000);
    reset();
    bounce = 1; /* it changes, and does not go on */
    assert_int_equal(measure(3579545, 0xffffff, 2000000000, 700), 0);
    assert_true(reads < 2100000);
}
