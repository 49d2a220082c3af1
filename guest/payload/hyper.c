/* SPDX-License-Identifier: BSD-2-Clause
 * hyper.c: what the guest's programs ask of PMUvisor: its CPUID leaves, its log and statistics.
 * VMCALL is executed only under PMUvisor: natively it would be an invalid opcode.
 * SDM Vol. 3, "VMCALL - Call to VM Monitor"; numbers and results in include/hypercall.h.
 */
#include "hypercall.h"
#include "options.h"
#include "payload.h"

#include <stdio.h>
#include <string.h>

#define CPUID_FEATURES 1u
#define CPUID_1_ECX_HYPERVISOR (1u << 31)
#define LOG_BYTES_PER_CALL 32
#define LOG_CALLS_MAX 65536

bool hyper_present(void) {
    struct cpuid_regs r = cpuid(CPUID_FEATURES, 0);

    if ((r.ecx & CPUID_1_ECX_HYPERVISOR) == 0) {
        return false;
    }
    r = cpuid(CPUID_HV_SIGNATURE, 0);
    return r.ebx == PMUVISOR_SIGNATURE_EBX && r.ecx == PMUVISOR_SIGNATURE_ECX &&
           r.edx == PMUVISOR_SIGNATURE_EDX && r.eax >= CPUID_HV_FEATURES;
}

const char *hyper_policy(void) {
    static const char *const names[] = {
        [POLICY_MSR_NMI] = "msr+nmi",
        [POLICY_MSR] = "msr",
        [POLICY_INTERCEPT] = "intercept",
    };
    uint32_t policy = cpuid(CPUID_HV_FEATURES, 0).ebx;

    if (policy >= sizeof(names) / sizeof(names[0]) || names[policy] == NULL) {
        return "unknown";
    }
    return names[policy];
}

/* One HYPERCALL_LOG: n bytes into text, or a negative error; *position moves on. */
static long log_read(uint64_t *position, char text[LOG_BYTES_PER_CALL]) {
    uint64_t words[LOG_BYTES_PER_CALL / sizeof(uint64_t)];
    long result;

    __asm__ volatile("vmcall"
                     : "=a"(result), "+b"(*position), "=c"(words[0]), "=d"(words[1]),
                       "=S"(words[2]), "=D"(words[3])
                     : "a"((long)HYPERCALL_LOG)
                     : "memory");
    memcpy(text, words, sizeof(words));
    return result;
}

int job_log(void) {
    char text[LOG_BYTES_PER_CALL];
    uint64_t position = 0;
    bool line_start = true;
    long total = 0;

    if (!hyper_present()) {
        printf("log: not running under PMUvisor\n");
        return 0;
    }
    for (int call = 0; call < LOG_CALLS_MAX; call++) {
        long n = log_read(&position, text);

        if (n < 0 || n > LOG_BYTES_PER_CALL) {
            printf("log: error=%ld\n", n);
            return 1;
        }
        if (n == 0) {
            break;
        }
        total += n;
        for (long i = 0; i < n; i++) {
            if (line_start) {
                fputs("log: ", stdout);
            }
            putchar(text[i]);
            line_start = text[i] == '\n';
        }
    }
    printf("%slog: bytes=%ld\n", line_start ? "" : "\n", total);
    return total > 0 ? 0 : 1;
}
