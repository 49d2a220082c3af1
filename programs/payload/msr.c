/* SPDX-License-Identifier: BSD-2-Clause
 * msr.c: the job `badmsr`: MSRs that must fault when the guest reads or writes them, through the
 * kernel's msr driver, which turns the #GP into EIO. SDM Vol. 4, "Model-Specific Registers".
 */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MSR_IA32_TIME_STAMP_COUNTER 0x10
#define MSR_IA32_VMX_BASIC 0x480
#define MSR_IA32_VMX_VMFUNC 0x491
/* Architecturally reserved: no processor has it (SDM Vol. 4, "Architectural MSRs"). */
#define MSR_RESERVED_RANGE 0x40000000
/* In no range of the MSR bitmap and in no table. */
#define MSR_OUTSIDE_BITMAP 0x0000dead

static const char *result_of(ssize_t n)
{
    if (n == sizeof(uint64_t))
        return "ok";
    return errno == EIO ? "EIO" : strerror(errno);
}

JOB(badmsr)
{
    static const struct {
        uint32_t index;
        bool guest_only; /* natively the register exists where the processor has VMX */
    } bad[] = {
        {MSR_RESERVED_RANGE, false},
        {MSR_OUTSIDE_BITMAP, false},
        {MSR_IA32_VMX_BASIC, true},
        {MSR_IA32_VMX_VMFUNC, true},
    };
    int error = load_module("msr");
    int failed = 0;
    uint64_t value = 0;
    int fd = open("/dev/cpu/0/msr", O_RDWR | O_CLOEXEC);

    if (fd < 0) {
        printf("badmsr: error=\"cannot open /dev/cpu/0/msr: %s (module: %s)\"\n", strerror(errno),
               strerror(-error));
        return 1;
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *read_result, *write_result = "skipped";

        if (bad[i].guest_only && !hyper_present())
            continue;
        value = 0;
        read_result = result_of(pread(fd, &value, sizeof(value), bad[i].index));
        write_result = result_of(pwrite(fd, &value, sizeof(value), bad[i].index));
        printf("badmsr: msr=%#x read=%s write=%s\n", bad[i].index, read_result, write_result);
        failed |= strcmp(read_result, "EIO") != 0 || strcmp(write_result, "EIO") != 0;
    }
    /* The driver itself works: an MSR that every processor has. */
    printf("badmsr: msr=%#x read=%s\n", MSR_IA32_TIME_STAMP_COUNTER,
           result_of(pread(fd, &value, sizeof(value), MSR_IA32_TIME_STAMP_COUNTER)));
    failed |= value == 0;
    close(fd);
    return failed;
}
