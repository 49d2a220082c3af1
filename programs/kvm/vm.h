/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One virtual machine with some processors, made and run through KVM's API.
 * (Linux, Documentation/virt/kvm/api.rst.)
 */
#pragma once

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

#include "acpi.h"
#include "image.h"
#include "lib/refusal.h"

#define VM_CPUS_MAX ACPI_CPUS_MAX

struct vcpu {
    int fd;
    struct kvm_run *run;
};

struct vm {
    int kvm, fd;
    unsigned cpus;
    struct vcpu
        vcpus[VM_CPUS_MAX]; /* the first one starts; the others wait for its INIT and SIPI */
    uint8_t *memory;
    uint64_t memory_size;
    unsigned pmu_version;       /* CPUID.0AH:EAX[7:0], as the guest sees it */
    uint64_t perf_capabilities; /* IA32_PERF_CAPABILITIES, likewise */
};

/* Memory, interrupt controllers, PIT, processors with their CPUID. */
bool vm_make(struct vm *vm, uint64_t memory_size, unsigned cpus, struct refusal *r);
/* The first processor's registers at the kernel's entry, and its local APIC's mode. */
bool vm_enter_at(struct vm *vm, const struct image_entry *entry, bool x2apic, struct refusal *r);
/* Whether its local APIC is in x2APIC mode now: the guest may have changed it. */
bool vm_x2apic(const struct vm *vm);
/* How much of its memory is in large pages of the host, in percent. */
unsigned vm_large_pages(const struct vm *vm);

enum vm_end {
    VM_END_RESET,    /* the guest reset the machine: its orderly end */
    VM_END_SHUTDOWN, /* triple fault */
    VM_END_TIME,
    VM_END_ERROR, /* *r says what */
};

/* Runs the guest until one of these; its COM1 is written to stdout, with the name, if it is not
 * NULL, before each line. */
enum vm_end vm_run(struct vm *vm, unsigned seconds, const char *name, struct refusal *r);
