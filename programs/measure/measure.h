/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The measurements at CPL 0, for whoever hosts them: the test kernel, or a kernel module. The host
 * describes its surroundings in a struct measure_environment and calls measure_run() with maskable
 * interrupts off, on one processor, at CPL 0, with the performance counters and NMIs to itself (in
 * Linux: no NMI watchdog, no perf event).
 */
#pragma once

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define MEASURE_RUNS 101        /* timed runs of each item */
#define MEASURE_OPERATIONS 1000 /* of each run, and of the marked pass */
#define MEASURE_RUNS_MAX 1023
#define MEASURE_OPERATIONS_MAX 100000 /* also what runs at once inside an NMI handler */
/* Of all runs of an item, with the one that warms up and the marked one: maskable interrupts are
 * off for so long. Fewer operations are made where it would be more. */
#define MEASURE_PRODUCT_MAX 1000000

enum measure_hypervisor { MEASURE_NATIVE, MEASURE_PMUVISOR, MEASURE_KVM, MEASURE_OTHER };

struct measure_environment {
    /* Prints as printf does (%s %lu only); lines end in \n and may come in several calls. Never
     * called from an NMI handler. */
    void (*print)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    /* Makes the IDT's vector 2 a gate to `entry`, with the IST that it has; NULL: to the host's own
     * handler again. In Linux: a copy of the IDT with that gate changed, and LIDT. */
    void (*nmi_entry)(const void *entry);
    /* Before each item, with the PMU's registers and LVTPC as the host had them: lets maskable
     * interrupts in for a moment, so that no other processor waits long for this one. NULL to go
     * on, or what is in the way now: the rest is then skipped. NULL: there is no need of it. */
    const char *(*between)(void);
    /* The local APIC's registers, mapped uncached; NULL in x2APIC mode. */
    volatile void *apic;
    /* measure_platform() sets these four. */
    enum measure_hypervisor hypervisor;
    /* A port whose accesses the hypervisor traps, of 1, 2 or 4 bytes, 0: none is known. What is
     * written is what was read, less `trapped_clear`. PMUvisor and natively: PM1a control, 2 bytes,
     * MEASURE_PM1_CLEAR. KVM: MEASURE_KVM_PORT, 1 byte, 0. */
    uint16_t trapped_port;
    uint8_t trapped_bytes;
    uint32_t trapped_clear;
    /* 0 stands for the numbers above; more than the largest is cut to it. */
    uint32_t runs, operations;
};

/* By CPUID, and the port that goes with it. `pm1a_control`: PM1a control's port, 0: none. */
void measure_platform(struct measure_environment *environment, uint16_t pm1a_control);

#define MEASURE_PM1_CLEAR (1u << 13) /* SLP_EN must not be written */
#define MEASURE_KVM_PORT                                                                           \
    0x4d0 /* ELCR of KVM's interrupt controller; kvm-unit-tests uses it, too                       \
           */

/* Runs an experiment: "msr", "exit", "pmi" or "a1k"; NULL: all. False: there is none of that name.
 * What cannot be run here is a line with skip="why". */
bool measure_run(const struct measure_environment *environment, const char *experiment);

/* Of the last measure_run(): checks that failed, each with a line "measure: ..." of its own, and
 * NMIs that nothing waited for (0 unless the host shares the processor's NMIs with somebody). */
uint64_t measure_failures(void);
uint64_t measure_stray_nmis(void);
