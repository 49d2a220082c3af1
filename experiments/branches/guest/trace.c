/* SPDX-License-Identifier: BSD-2-Clause
 * trace.c: the module's device, and what has to be so before it can be used.
 */
#define _GNU_SOURCE /* sched_setaffinity() */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE "/lib/modules/branchtrace.ko"

bool complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    printf("branchtrace: error=\"");
    vprintf(format, arguments);
    printf("\"\n");
    va_end(arguments);
    return false;
}

bool set_kernel(const char *file, const char *value)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    bool done = fd < 0 || write(fd, value, strlen(value)) == (ssize_t)strlen(value);

    if (fd >= 0)
        close(fd);
    return done ||
           complain("cannot write %s to %s: %s; run this as root", value, file, strerror(errno));
}

static bool load_module(void)
{
    int fd = open(MODULE, O_RDONLY | O_CLOEXEC);
    long error = fd < 0 ? -1 : syscall(SYS_finit_module, fd, "", 0);

    if (fd >= 0)
        close(fd);
    return error == 0 || errno == EEXIST ||
           complain("cannot load " MODULE ": %s; wanted the module of this kernel, and a PMU as "
                    "its line in the kernel's log says",
                    strerror(errno));
}

static bool stay_here(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();

    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0u : (unsigned)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0 ||
           complain("sched_setaffinity: %s", strerror(errno));
}

bool tracer_set_up(struct tracer *tracer)
{
    if (ioctl(tracer->fd, BRANCHTRACE_SETUP, &tracer->setup) == 0)
        return true;
    if (errno == EBUSY) {
        return complain("the counters are in use; end what counts or samples (perf, another "
                        "branchtrace)");
    }
    return complain("SETUP with flags %#x, period %u: %s; wanted user or kernel branches and a "
                    "period of 1 to %u",
                    tracer->setup.flags, tracer->setup.period, strerror(errno),
                    BRANCHTRACE_PERIOD_MAX);
}

bool tracer_open(struct tracer *tracer, const struct branchtrace_setup *setup)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t records = setup->records * sizeof(struct branchtrace_record);
    size_t readouts = setup->readouts * sizeof(struct branchtrace_readout);

    *tracer = (struct tracer){.fd = -1, .setup = *setup, .buffer = MAP_FAILED};
    if (!set_kernel(NMI_WATCHDOG, "0") || !stay_here())
        return false;
    if (access(BRANCHTRACE_DEVICE, F_OK) != 0 && !load_module())
        return false;
    tracer->fd = open(BRANCHTRACE_DEVICE, O_RDWR | O_CLOEXEC);
    if (tracer->fd < 0)
        return complain("cannot open " BRANCHTRACE_DEVICE ": %s", strerror(errno));
    if (!tracer_set_up(tracer))
        return false;
    tracer->bytes = (records + page - 1) / page * page + (readouts + page - 1) / page * page;
    tracer->buffer = mmap(NULL, tracer->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, tracer->fd, 0);
    return tracer->buffer != MAP_FAILED || complain("mmap: %s", strerror(errno));
}

static void forget(struct tracer *tracer, uint32_t drop)
{
    struct branchtrace_readout *readouts = (void *)((char *)tracer->buffer +
                                                    tracer->result.readout_offset);

    for (uint32_t i = 0; i < tracer->result.readouts; i++) {
        struct branchtrace_readout *readout = &readouts[i];

        if (drop - readout->first < readout->count) {
            memmove(&tracer->buffer[drop], &tracer->buffer[drop + 1],
                    (readout->first + readout->count - drop - 1) * sizeof(*tracer->buffer));
            readout->count--;
            tracer->result.records--;
            return;
        }
    }
}

bool tracer_read(struct tracer *tracer, uint32_t drop, struct list *list)
{
    struct bounds bounds = {(uint64_t)(uintptr_t)stretch_begin, (uint64_t)(uintptr_t)stretch_end};

    if (ioctl(tracer->fd, BRANCHTRACE_RESULT, &tracer->result) != 0)
        return complain("RESULT: %s", strerror(errno));
    if (tracer->result.inserts == 0 && tracer->result.near_taken != 0) {
        return complain("LBR_INSERTS counted 0 at %llu taken branches, wanted at least as many; "
                        "this processor does not have the event",
                        (unsigned long long)tracer->result.near_taken);
    }
    if (drop != 0)
        forget(tracer, drop);
    list_clean(list, tracer->buffer,
               (const void *)((char *)tracer->buffer + tracer->result.readout_offset),
               &tracer->result, tracer->setup.flags, &bounds);
    return true;
}

bool tracer_run(struct tracer *tracer, uint32_t region, void (*work)(void *), void *argument,
                uint32_t drop, struct list *list)
{
    long error = stretch_run(tracer->fd, region, work, argument);

    if (error != 0)
        return complain("START or STOP: %s", strerror((int)-error));
    return tracer_read(tracer, drop, list);
}

void tracer_close(struct tracer *tracer)
{
    if (tracer->buffer != MAP_FAILED)
        munmap(tracer->buffer, tracer->bytes);
    if (tracer->fd >= 0)
        close(tracer->fd);
}
