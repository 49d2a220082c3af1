/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Looks at the running kernel's KVM and says what is wrong with it. Reads /proc and /sys, opens
 * /dev/kvm and nothing else. SDM Vol. 3, "Discovering Support for VMX".
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CPUINFO "/proc/cpuinfo"
#define CPUINFO_MAX 16384 /* the first processor's lines are enough */
#define FLAGS_KEY "flags"
#define WANTED "wanted KVM on Intel's VMX"

bool cpuinfo_has(const char *text, const char *flag)
{
    size_t length = strlen(flag);

    while (strncmp(text, FLAGS_KEY, strlen(FLAGS_KEY)) != 0) {
        text = strchr(text, '\n');
        if (text == NULL)
            return false;
        text++;
    }
    const char *end = text + strcspn(text, "\n");
    for (const char *p = text + strcspn(text, ":\n"); p < end;) {
        p += strspn(p, ": \t");
        size_t word = strcspn(p, " \t\n");
        if (word == length && memcmp(p, flag, length) == 0)
            return true;
        p += word;
    }
    return false;
}

void kvm_host_read(struct kvm_host *host)
{
    static char text[CPUINFO_MAX];
    FILE *file = fopen(CPUINFO, "re");

    *host = (struct kvm_host){0};
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    host->vmx = cpuinfo_has(text, "vmx");
    host->svm = cpuinfo_has(text, "svm");
    host->kvm_intel = access("/sys/module/kvm_intel", F_OK) == 0;
    host->kvm_pvm = access("/sys/module/kvm_pvm", F_OK) == 0;
    int device = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (device < 0)
        host->open_error = errno;
    else
        close(device);
}

bool kvm_host_check(const struct kvm_host *host, struct refusal *r)
{
    if (!host->vmx && host->kvm_pvm)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: found KVM without VMX (module kvm_pvm, no flag vmx in " CPUINFO
                      "), " WANTED "; use a machine with VT-x, or the emulator");
    if (!host->vmx && host->svm)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: found a processor with AMD's SVM (flag svm in " CPUINFO "), " WANTED
                      "; use a machine with VT-x, or the emulator");
    if (!host->vmx)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: found a processor without VMX (no flag vmx in " CPUINFO "), " WANTED
                      "; turn on VT-x in the firmware, or use the emulator");
    if (host->open_error == ENOENT || host->open_error == ENODEV || host->open_error == ENXIO)
        return refuse(r, REFUSE_NOT_FOUND,
                      "KVM: found no " KVM_DEVICE ", " WANTED "; load it: modprobe kvm_intel");
    if (host->open_error != 0)
        return refuse(r, REFUSE_NOT_FOUND,
                      "KVM: found that " KVM_DEVICE " does not open (%s), wanted to use it; add "
                      "yourself to its group: sudo usermod -aG kvm USER",
                      strerror(host->open_error));
    if (!host->kvm_intel)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "KVM: found " KVM_DEVICE " without the module kvm_intel%s, " WANTED
                      "; load it: modprobe kvm_intel",
                      host->kvm_pvm ? " (but kvm_pvm)" : "");
    return true;
}
