/* SPDX-License-Identifier: BSD-2-Clause
 * ring.c: the job `ring`: the hypervisor's records of this processor between the two CPUID leaves
 * of the job `pair`, as lines. Wants trace=exits or trace=flow, and user_hypercalls=1.
 */
#define _GNU_SOURCE
#include "hypercall.h"
#include "payload.h"
#include "trace_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAF_BEGIN 0x70616972u /* pair.c */
#define LEAF_END (LEAF_BEGIN + 1)
#define REASON_CPUID 10

static const void *map_ring(void)
{
    uint64_t rbx = TRACE_ASK, bytes = 0;
    long level = HYPERCALL_TRACE;
    const void *ring;
    int mem;

    __asm__ volatile("vmcall" : "+a"(level), "+b"(rbx), "+c"(bytes) : : "rdx", "memory");
    if (level < 0) {
        printf("ring: error=\"hypercall %d gave %ld; wanted trace=exits or trace=flow, and "
               "user_hypercalls=1\"\n", HYPERCALL_TRACE, level);
        return NULL;
    }
    mem = open("/dev/mem", O_RDONLY | O_CLOEXEC);
    ring = mmap(NULL, bytes, PROT_READ, MAP_SHARED, mem, (off_t)rbx);
    if (ring == MAP_FAILED) {
        printf("ring: error=\"/dev/mem at 0x%" PRIx64 ": %s\"\n", rbx, strerror(errno));
        return NULL;
    }
    close(mem);
    return ring;
}

int job_ring(void)
{
    const struct trace_record *records;
    const struct trace_ring *ring;
    uint64_t written, first;
    cpu_set_t one;
    int lines = 0;
    bool inside = false, ended = false;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (!hyper_present() || sched_setaffinity(0, sizeof(one), &one) != 0) {
        return 1;
    }
    ring = map_ring();
    if (ring == NULL || ring->magic != TRACE_RING_MAGIC) {
        return 1;
    }
    records = (const void *)((const char *)ring + TRACE_RING_HEADER_BYTES);
    written = *(const volatile uint64_t *)&ring->written;
    /* Lines make no exit but interrupts' and those of changes of process: the ring has room. */
    first = written > ring->capacity / 2 ? written - ring->capacity / 2 : 0;
    for (uint64_t number = first; number < written && !ended; number++) {
        const struct trace_record *r = &records[number % ring->capacity];
        bool cpuid_exit = r->reason == REASON_CPUID;

        inside = inside || (cpuid_exit && r->detail == LEAF_BEGIN);
        ended = inside && cpuid_exit && r->detail == LEAF_END;
        if (inside) {
            printf("ring: tsc=%" PRIu64 " rip=0x%" PRIx64 " cr3=0x%" PRIx64 " reason=%u flags=%u "
                   "detail=%u root_time=%u\n", r->tsc, r->rip, (uint64_t)r->cr3,
                   (unsigned)r->reason, (unsigned)r->flags, r->detail, r->root_time);
            lines++;
        }
    }
    printf("ring: lines=%d level=%u\n", lines, ring->level);
    return ended ? 0 : 1;
}
