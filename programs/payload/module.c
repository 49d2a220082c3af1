/* SPDX-License-Identifier: BSD-2-Clause
 * module.c: the job `module`: loads pmuvisor_nmi.ko (programs/module/) and prints its counters. A
 * job list may name it twice, before and after what raises the NMIs. Without PMUvisor the module
 * must refuse. SDM Vol. 3, "VMCALL - Call to VM Monitor".
 */
#include "payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE "pmuvisor_nmi"
#define PARAMETERS "/sys/module/" MODULE "/parameters/"

static long counter(const char *path)
{
    char *text = read_text(path);

    return text == NULL ? -1 : strtol(text, NULL, 10);
}

JOB(module)
{
    int wanted = hyper_present() ? 0 : -ENODEV;
    int error = load_module(MODULE);
    long handed_back = counter(PARAMETERS "handed_back");
    long not_ours = counter(PARAMETERS "not_ours");

    printf("module: load=\"%s\" wanted=\"%s\" handed_back=%ld not_ours=%ld\n", strerror(-error),
           strerror(-wanted), handed_back, not_ours);
    if (error != 0) {
        print_kernel_log("module", (const char *const[]){MODULE}, 1);
        return error != wanted;
    }
    return wanted != 0 || handed_back < 0 || not_ours < 0;
}
