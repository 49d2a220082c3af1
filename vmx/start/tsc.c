/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where the frequency of the TSC comes from: CPUID of the processor, CPUID of an outer hypervisor
 * (KVM's guest has no leaf 15H), ACPI's PM timer, the PIT. Reads timers; writes the PIT's channel 2
 * and its gate alone, which nobody uses yet.
 * SDM Vol. 3, "Determining the Processor Base Frequency"; ACPI specification, "Power Management
 * Timer"; Intel 8254 data sheet, "Programming the 8254", "Counter Latch Command".
 */
#include "vmx/start/tsc.h"

#include <stdbool.h>

#include "log.h"

#define INTERVALS_PER_SECOND 100
#define MEASUREMENTS 5      /* an SMI or an outer hypervisor spoils one, not the middle one of five */
#define STUCK_READS 10000   /* without a change: it does not count. A read takes 1 us and less */
#define READS_MAX 1000000

#define PM_TIMER_HZ 3579545
#define PM_TIMER_BITS BITS(23, 0) /* those that every PM timer has */

#define PIT_HZ 1193182
#define PIT_BITS BITS(15, 0)
#define PIT_CHANNEL_2 0x42
#define PIT_CONTROL 0x43
#define PIT_CHANNEL_2_MODE_2 0xb4 /* both bytes, rate generator, binary: it begins again at 0 */
#define PIT_CHANNEL_2_LATCH 0x80
#define PIT_GATE_PORT 0x61
#define PIT_GATE_WRITABLE BITS(3, 0)
#define PIT_GATE BIT(0)
#define PIT_SPEAKER BIT(1)

uint64_t tsc_told_khz(struct cpuid_result (*ask)(uint32_t leaf, uint32_t subleaf), uint32_t *leaf)
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
    /* Defined by VMware, and given by KVM where the TSC is stable (QEMU, "vmware-cpuid-freq"). One
     * that has another meaning for its leaves ends before, or has 0 there. */
    *leaf = CPUID_LEAF_HYPERVISOR_TSC;
    return ask(1, 0).ecx & CPUID_1_ECX_HYPERVISOR && ask(CPUID_LEAF_HYPERVISOR, 0).eax >= *leaf
               ? ask(*leaf, 0).eax
               : 0;
}

/* Until the clock is `ticks` past *at, which becomes what it is then; *tsc goes with it. */
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

uint64_t tsc_measured_khz(const struct tsc_clock *c)
{
    uint64_t khz[MEASUREMENTS], first, second;

    for (unsigned n = 0; n < MEASUREMENTS; n++) {
        uint32_t start = c->read(c->port) & c->mask, end;
        if (!wait_ticks(c, 1, &start, &first)) /* its very edge */
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

/* It counts down. */
static uint32_t pit_read(uint16_t port)
{
    outb(PIT_CONTROL, PIT_CHANNEL_2_LATCH);
    uint32_t low = inb(port), high = inb(port);
    return -(high << 8 | low);
}

static uint64_t measured_by_pit(void)
{
    const struct tsc_clock pit = {PIT_HZ, PIT_BITS, PIT_CHANNEL_2, pit_read, rdtsc};
    uint8_t gate = inb(PIT_GATE_PORT) & PIT_GATE_WRITABLE;

    outb(PIT_GATE_PORT, (gate & (uint8_t)~PIT_SPEAKER) | PIT_GATE);
    outb(PIT_CONTROL, PIT_CHANNEL_2_MODE_2);
    outb(PIT_CHANNEL_2, 0); /* from 65536 */
    outb(PIT_CHANNEL_2, 0);
    uint64_t khz = tsc_measured_khz(&pit);
    outb(PIT_GATE_PORT, gate);
    return khz;
}

uint64_t tsc_khz(uint16_t pm_timer)
{
    const struct tsc_clock timer = {PM_TIMER_HZ, PM_TIMER_BITS, pm_timer, inl, rdtsc};
    uint32_t leaf;
    uint64_t khz = tsc_told_khz(cpuid, &leaf);

    if (khz != 0) {
        log_printf("pmuvisor: TSC: %lu kHz, by CPUID leaf 0x%x\n", khz, leaf);
        return khz;
    }
    bool by_acpi = pm_timer != 0 && (khz = tsc_measured_khz(&timer)) != 0;
    if (!by_acpi)
        khz = measured_by_pit();
    if (khz != 0)
        log_printf("pmuvisor: TSC: %lu kHz, measured by %s, since CPUID does not tell\n", khz,
                   by_acpi ? "ACPI's PM timer" : "the PIT");
    else
        log_printf("pmuvisor: TSC: CPUID does not tell its frequency, and neither ACPI's PM timer nor "
                   "the PIT counts\n");
    return khz;
}
