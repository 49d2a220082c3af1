/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hypervisor.c: CPUID and VMCALL, from CPL 3. Numbers are in include/hypercall.h and trace_ring.h.
 */
#define _GNU_SOURCE
#include "hypervisor.h"

#include <cpuid.h>
#include <sched.h>

#include "hypercall.h"
#include "trace_ring.h"

bool pmuvisor_there(void)
{
    unsigned eax, ebx, ecx, edx;

    __cpuid(CPUID_HV_SIGNATURE, eax, ebx, ecx, edx);
    return ebx == PMUVISOR_SIGNATURE_EBX && ecx == PMUVISOR_SIGNATURE_ECX &&
           edx == PMUVISOR_SIGNATURE_EDX;
}

bool run_on(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

int64_t hypercall_trace(uint64_t level, uint64_t *ring, uint64_t *bytes)
{
    int64_t result;

    __asm__ volatile("vmcall"
                     : "=a"(result), "=b"(*ring), "=c"(*bytes)
                     : "a"(HYPERCALL_TRACE), "b"(level)
                     : "memory");
    return result;
}

const char *hypercall_error(int64_t result)
{
    switch (result) {
    case HYPERCALL_E_PERMISSION:
        return "PMUvisor serves CPL 0 alone; start it with user_hypercalls=1";
    case HYPERCALL_E_NUMBER:
        return "PMUvisor records no exits; start it with trace=exits or trace=flow";
    case HYPERCALL_E_SUPPORT:
        return "the level is above that of the option trace=; start PMUvisor with a higher one";
    default:
        return "PMUvisor does not know the level";
    }
}

int64_t hypercall_memory(const struct memory_request *request, uint64_t *ring, uint64_t *bytes)
{
    int64_t result;

    __asm__ volatile("vmcall"
                     : "=a"(result), "=b"(*ring), "=c"(*bytes)
                     : "a"(HYPERCALL_MEMTRACE), "b"(request->mode), "c"(request->first),
                       "d"(request->bytes), "S"(request->cr3)
                     : "memory");
    return result;
}

const char *memory_error(int64_t result)
{
    switch (result) {
    case HYPERCALL_E_PERMISSION:
        return "PMUvisor serves CPL 0 alone; start it with user_hypercalls=1";
    case HYPERCALL_E_NUMBER:
        return "PMUvisor traces no memory; start it with memtrace=writes, reads or all, and see "
               "its log";
    case HYPERCALL_E_SUPPORT:
        return "this is more than the option memtrace= names, or the processor cannot trace one "
               "process; see PMUvisor's log";
    case HYPERCALL_E_STATE:
        return "another processor traces another range; end that first";
    default:
        return "this is no range of memory; see PMUvisor's log";
    }
}
