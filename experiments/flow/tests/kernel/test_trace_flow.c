/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace=flow: the records of HLT, loads of CR3 and external interrupts, in every way in which one
 * comes; and that a load of CR3 does what it does natively.
 * SDM Vol. 3, "Other Causes of VM Exits", "Instructions That Cause VM Exits", "Process-Context
 * Identifiers (PCIDs)".
 */
#include <string.h>

#include "trace.h"

#include "fuzz.h"
#include "hypercall.h"
#include "vmx.h"
#include "x86.h"

#define ROUNDS 20
#define TABLE_WORDS 512
#define CR4_PCIDE BIT(17)
#define CPUID_1_ECX_PCID BIT(17)
#define CPUID_1_ECX_MONITOR BIT(3)
#define NO_FLUSH BIT(63)
#define USER_SIDE 0x1800ULL /* bits 12 and 11: Linux's other table and its PCIDs */
#define RESERVED BIT(60)
#define FIRST_VECTOR 0x20
#define VECTOR_STEP 7
#define VECTOR_COUNT 0xc0

/* Two page tables side by side, as with Linux's page-table isolation; and another process. */
static uint64_t tables[3][TABLE_WORDS] __attribute__((aligned(4 * 4096)));

/* MOV to CR3: what its record has to be. `value` is loaded by one instruction. */
static struct trace_wanted load(uint64_t value)
{
    uint64_t rip, rsp;

    __asm__ volatile("lea 1f(%%rip), %0\n\tmov %%rsp, %1\n1:\tmov %2, %%cr3"
                     : "=&r"(rip), "=&r"(rsp)
                     : "r"(value)
                     : "memory");
    return (struct trace_wanted){.reason = EXIT_REASON_CR_ACCESS,
                                 .rip = rip,
                                 .cr3 = value & BITS(47, 0),
                                 .detail = trace_stack(rsp)};
}

static bool loaded(const char *what, uint64_t value)
{
    if (read_cr3() == (value & ~NO_FLUSH))
        return true;
    tap_note("%s: CR3 is 0x%lx, wanted 0x%lx", what, read_cr3(), value & ~NO_FLUSH);
    return false;
}

/* A process that was not the last one. */
static bool exits(const char *what, uint64_t value)
{
    trace_mark();
    struct trace_wanted w = load(value);
    return trace_next(what, w) && trace_no_more(what) && loaded(what, value);
}

static bool passes(const char *what, uint64_t value)
{
    trace_mark();
    (void)load(value);
    return trace_no_more(what) && loaded(what, value);
}

/* The processor refuses it, as it does natively, and CR3 stays: so it does in the record. */
static bool refused(uint64_t value)
{
    uint64_t rip, rsp, before = read_cr3(), faults = fault_count;

    trace_mark();
    __asm__ volatile("lea 2f(%%rip), %0\n\tmov %0, %2\n\tlea 1f(%%rip), %0\n\tmov %%rsp, %1\n"
                     "1:\tmov %3, %%cr3\n\tmovq $0, %2\n2:"
                     : "=&r"(rip), "=&r"(rsp), "=m"(fault_resume)
                     : "r"(value)
                     : "memory");
    if (!trace_next("a load that is refused", (struct trace_wanted){.reason = EXIT_REASON_CR_ACCESS,
                                                                    .rip = rip,
                                                                    .cr3 = before & BITS(47, 0),
                                                                    .detail = trace_stack(rsp)}))
        return false;
    if (fault_count == faults + 1 && fault_vector == VECTOR_GP && read_cr3() == before)
        return true;
    tap_note("CR3 = 0x%lx: %lu faults, CR3 is 0x%lx then", value, fault_count - faults, read_cr3());
    return false;
}

/* Between the two sides of a process, with `id` in the low bits, and to another and back. */
static bool process(uint64_t kernel, uint64_t other, uint64_t id, uint64_t no_flush)
{
    bool good = exits("a process", kernel | id) && passes("the same again", kernel | id);

    for (unsigned i = 0; i < ROUNDS && good; i++)
        good = passes("user space", ((kernel | id) ^ USER_SIDE) | no_flush) &&
               passes("user space, flushed", (kernel | id) ^ USER_SIDE) &&
               passes("the kernel", kernel | id | no_flush) &&
               exits("another process", other | id | no_flush) &&
               exits("and back", kernel | id | no_flush);
    return good;
}

static bool cr3_loads(void)
{
    uint64_t own = read_cr3(), kernel = fuzz_physical(tables[0]), other = fuzz_physical(tables[2]);
    bool good;

    if (kernel & USER_SIDE) {
        tap_note("the tables are at 0x%lx, wanted a multiple of 8 KiB", kernel);
        return false;
    }
    for (unsigned i = 0; i < 3; i++)
        memcpy(tables[i], (const void *)(own & BITS(51, 12)), sizeof(tables[i]));
    good = process(kernel, other, 0, 0);
    good = refused(other | RESERVED) && refused(other | NO_FLUSH) && good;
    if (cpuid(1, 0).ecx & CPUID_1_ECX_PCID) {
        write_cr4(read_cr4() | CR4_PCIDE);
        good = process(kernel, other, 1, NO_FLUSH) && process(kernel, other, 5, 0) && good;
        good = refused(other | RESERVED | 1) && refused(other | RESERVED | NO_FLUSH) && good;
        (void)load(kernel);
        write_cr4(read_cr4() & ~CR4_PCIDE);
    }
    (void)load(own);
    return good;
}

static void send(uint32_t vector) { apic_send(apic_id(), ICR_FIXED | ICR_ASSERT | vector); }

#define ISR 0x100
#define IRR 0x200
#define REGISTER_STEP 0x10

static bool requested(uint32_t vector)
{
    return apic_read(IRR + vector / 32 * REGISTER_STEP) >> vector % 32 & 1;
}

/* With IF = 0: one exit that gives nothing yet, at whichever instruction it comes, and none more
 * until the guest can take it. Then the window's, which gives the vector. */
static bool in_window(uint32_t vector, bool halted)
{
    uint64_t hlt, rip, rsp, before = trace_ring->written;

    send(vector);
    while (!requested(vector))
        __asm__ volatile("pause");
    __asm__ volatile("nop");
    bool good = trace_ring->written == before + 1;
    if (good) {
        struct trace_record r = trace_record(before);
        good = r.reason == EXIT_REASON_EXTERNAL_INTERRUPT && (r.detail & TRACE_VECTOR) == 0;
    }
    if (!good)
        tap_note("vector 0x%x sent with IF = 0: %lu records", vector, trace_ring->written - before);
    trace_mark();
    if (halted)
        __asm__ volatile("lea 1f(%%rip), %0\n\tlea 2f(%%rip), %1\n\tmov %%rsp, %2\n\t"
                         "sti\n1:\thlt\n2:\tcli"
                         : "=&r"(hlt), "=&r"(rip), "=&r"(rsp)
                         :
                         : "memory", "cc");
    else
        __asm__ volatile("lea 2f(%%rip), %1\n\tmov %%rsp, %2\n\tmov %2, %0\n\tsti\n\tnop\n2:\tcli"
                         : "=&r"(hlt), "=&r"(rip), "=&r"(rsp)
                         :
                         : "memory", "cc");
    if (halted)
        good = trace_next("HLT", (struct trace_wanted){.reason = EXIT_REASON_HLT,
                                                       .rip = hlt,
                                                       .cr3 = trace_cr3(),
                                                       .flags = 1,
                                                       .detail = trace_stack(rsp)}) &&
               good;
    return trace_next("interrupt window",
                      (struct trace_wanted){.reason = EXIT_REASON_INTERRUPT_WINDOW,
                                            .rip = rip,
                                            .cr3 = trace_cr3(),
                                            .detail = trace_stack(rsp) | vector}) &&
           trace_no_more("interrupt window") && good;
}

/* With IF = 1: one exit, which gives the vector. */
static bool at_once(uint32_t vector)
{
    uint64_t taken = stray_interrupts, before = trace_ring->written;

    __asm__ volatile("sti" : : : "memory");
    send(vector);
    while (stray_interrupts == taken)
        __asm__ volatile("pause");
    __asm__ volatile("cli" : : : "memory");
    struct trace_record r = trace_record(before);
    if (trace_ring->written == before + 1 && r.reason == EXIT_REASON_EXTERNAL_INTERRUPT &&
        (r.detail & TRACE_VECTOR) == vector && r.flags == 0 && r.cr3 == trace_cr3())
        return true;
    tap_note("vector 0x%x sent with IF = 1: %lu records, reason %u, detail 0x%x", vector,
             trace_ring->written - before, r.reason, r.detail);
    return false;
}

static bool interrupts(void)
{
    bool good = true;

    for (uint32_t n = 0; n < VECTOR_COUNT && good; n += VECTOR_STEP) {
        uint64_t taken = stray_interrupts;
        good = at_once(FIRST_VECTOR + n) && in_window(FIRST_VECTOR + n, false) &&
               in_window(FIRST_VECTOR + n, true);
        if (stray_interrupts != taken + 3) {
            tap_note("vector 0x%x: %lu interrupts of 3", FIRST_VECTOR + n,
                     stray_interrupts - taken);
            good = false;
        }
    }
    return good;
}

/* Turned off, none of it exits, even with an interrupt that waits for its window. */
static bool off(void)
{
    uint64_t taken = stray_interrupts, own = read_cr3();

    send(FIRST_VECTOR);
    while (!requested(FIRST_VECTOR))
        __asm__ volatile("pause");
    (void)trace_level(TRACE_EXITS);
    trace_mark();
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory", "cc");
    (void)load(fuzz_physical(tables[0]));
    (void)load(own);
    bool good = trace_no_more("trace=exits") && stray_interrupts == taken + 1;
    (void)trace_level(TRACE_FLOW);
    return good;
}

void test_trace_flow(const struct job *job)
{
    if (!trace_begin(job))
        return;
    if (trace_level(TRACE_ASK) != TRACE_FLOW) {
        tap_skip(job->name, "wanted trace=flow");
        return;
    }
    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    bool hidden = !(cpuid(1, 0).ecx & CPUID_1_ECX_MONITOR);
    if (!hidden)
        tap_note("CPUID shows MONITOR");
    tap_result(hidden && cr3_loads() && interrupts() && off(), job->name, NULL);
}
