/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Is the KVM of this machine Intel's, on a processor with VMX? Only then is it the baseline that
 * the launcher is for. Linux, Documentation/virt/kvm/.
 */
#pragma once

#include <stdbool.h>

#include "lib/refusal.h"

#define KVM_DEVICE "/dev/kvm"

struct kvm_host {
    bool vmx, svm;           /* flags in /proc/cpuinfo */
    bool kvm_intel, kvm_pvm; /* modules, loaded or built in */
    int open_error;          /* errno of opening KVM_DEVICE; 0: it opens */
};

/* True when the text of /proc/cpuinfo has the flag on its first line of flags. Pure. */
bool cpuinfo_has(const char *text, const char *flag);

/* Asks the running kernel. */
void kvm_host_read(struct kvm_host *host);

/* False: *r says why this KVM is not one on VMX. Pure. */
bool kvm_host_check(const struct kvm_host *host, struct refusal *r);
