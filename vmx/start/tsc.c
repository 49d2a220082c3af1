/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds the TSC's frequency: from the processor's CPUID (newer processors), from an outer
 * hypervisor's CPUID (a KVM guest may have no leaf 15H), or by ACPI's PM timer (older processors,
 * QEMU's machines). SDM Vol. 3, "Determining the Processor Base Frequency"; ACPI specification,
 * "Power Management Timer".
 */
#include "vmx/start/tsc.h"

#include <stdbool.h>

#include "console/log.h"

#define INTERVALS_PER_SECOND 100
#define MEASUREMENTS 5    /* an SMI or an outer hypervisor may spoil one value, not the median */
#define STUCK_READS 10000 /* this many equal reads, at most 1 us each, show a stuck timer */
#define READS_MAX 1000000

#define PM_TIMER_HZ 3579545
#define PM_TIMER_BITS BITS(23, 0) /* the bits that every PM timer has */

uint64_t tsc_read_cpuid_khz(struct cpuid_result (*ask)(uint32_t leaf, uint32_t subleaf),
                            uint32_t *leaf)
{
    uint32_t last = ask(0, 0).eax;
    struct cpuid_result r = ask(CPUID_LEAF_TSC, 0);
    uint64_t mhz = ask(CPUID_LEAF_FREQUENCY, 0).eax & 0xffff;

    *leaf = CPUID_LEAF_TSC;
    if (last >= *leaf && r.eax != 0 && r.ebx != 0 && r.ecx != 0)
        return (uint64_t)r.ecx * r.ebx / r.eax / 1000;
    *leaf = CPUID_LEAF_FREQUENCY;
    if (last >= *leaf && mhz != 0)
        return mhz * 1000;
    /* VMware defined this leaf, and KVM offers it if the TSC is stable (QEMU, "vmware-cpuid-freq").
     * A hypervisor without this leaf reports fewer leaves, or 0 in this leaf. */
    *leaf = CPUID_LEAF_HYPERVISOR_TSC;
    return ask(1, 0).ecx & CPUID_1_ECX_HYPERVISOR && ask(CPUID_LEAF_HYPERVISOR, 0).eax >= *leaf
               ? ask(*leaf, 0).eax
               : 0;
}

/* Waits until the clock has reached *at + `ticks`. Sets *at and *tsc to the clock's and the TSC's
 * values at that time. False: the clock does not count. */
static bool wait_ticks(const struct tsc_clock *c, uint32_t ticks, uint32_t *at, uint64_t *tsc)
{
    uint32_t start = *at, last = start;

    for (uint32_t i = 0, same = 0; i < READS_MAX && same < STUCK_READS; i++) {
        *tsc = c->tsc();
        uint32_t now = c->read(c->port) & c->mask;
        same = now == last ? same + 1 : 0;
        last = now;
        if (((now - start) & c->mask) >= ticks) {
            *at = now;
            return true;
        }
    }
    return false;
}

uint64_t tsc_measure_khz(const struct tsc_clock *c)
{
    uint64_t khz[MEASUREMENTS], first, second;

    for (unsigned n = 0; n < MEASUREMENTS; n++) {
        uint32_t start = c->read(c->port) & c->mask, end;
        if (!wait_ticks(c, 1, &start, &first)) /* start exactly at a tick */
            return 0;
        end = start;
        if (!wait_ticks(c, c->hz / INTERVALS_PER_SECOND, &end, &second))
            return 0;
        uint64_t value = (second - first) * c->hz / ((end - start) & c->mask) / 1000;
        unsigned place = n;
        for (; place > 0 && khz[place - 1] > value; place--)
            khz[place] = khz[place - 1];
        khz[place] = value;
    }
    return khz[MEASUREMENTS / 2];
}

uint64_t tsc_khz(uint16_t pm_timer)
{
    const struct tsc_clock timer = {PM_TIMER_HZ, PM_TIMER_BITS, pm_timer, inl, rdtsc};
    uint32_t leaf;
    uint64_t khz = tsc_read_cpuid_khz(cpuid, &leaf);

    if (khz != 0) {
        log_printf("pmuvisor: TSC: %lu kHz, by CPUID leaf 0x%x\n", khz, leaf);
        return khz;
    }
    khz = pm_timer != 0 ? tsc_measure_khz(&timer) : 0;
    if (khz != 0)
        log_printf(
            "pmuvisor: TSC: %lu kHz, measured by ACPI's PM timer, since CPUID does not tell\n",
            khz);
    else
        log_printf("pmuvisor: TSC: CPUID does not tell its frequency, and no PM timer of ACPI's "
                   "counts\n");
    return khz;
}
