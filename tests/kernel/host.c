/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Host NMIs as the guest can have them made: the hypervisor's test build says which word of its
 * memory a sender writes; the emulator writes it and sends the NMI (testbed/README.md, "Knobs").
 */
#include "host.h"

#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define MARKER_REQUEST 2
#define MARKER_HOST_NMI 3

struct hypercall_registers hypercall_all(uint64_t rax, uint64_t rbx, uint64_t rcx, uint64_t rdx)
{
    __asm__ volatile("vmcall"
                     : "+a"(rax), "+b"(rbx), "+c"(rcx), "+d"(rdx)
                     :
                     : "rsi", "rdi", "memory");
    return (struct hypercall_registers){rax, rbx, rcx, rdx};
}

bool hypervisor_offers(const struct job *job, unsigned number)
{
    if (under_pmuvisor() && cpuid(CPUID_HV_FEATURES, 0).ecx & BIT(number))
        return true;
    tap_skip(job->name, "this hypervisor does not offer the hypercall (make TEST=1)");
    return false;
}

struct handled host_handled(void)
{
    struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_SOURCE, SOURCE_BACKTRACE, 0, 0);

    return (struct handled){r.rax, r.rbx, r.rcx};
}

static void request_word(uint64_t address, uint64_t value)
{
    __asm__ volatile("xchg %%bx, %%bx"
                     :
                     : "a"((uint32_t)value), "c"(MARKER_REQUEST), "d"(address)
                     : "memory");
}

bool host_nmi_setup(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_TEST_REQUEST_WORD))
        return false;
    struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_REQUEST_WORD, TEST_SENDER_DONE, 0,
                                                 0);
    request_word(r.rax, r.rbx);
    return true;
}

void host_nmi_still_sending(void)
{
    struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_REQUEST_WORD, 0, 0, 0);

    request_word(r.rax, r.rcx);
}

void host_nmi_now(void)
{
    __asm__ volatile("xchg %%bx, %%bx\n\tnop" : : "c"(MARKER_HOST_NMI) : "memory");
}
