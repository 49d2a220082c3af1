/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Intel PT of the guest's: what a trace has of exits, an output that is not the guest's memory, and
 * PMIs of a table of regions over exits. SDM Vol. 3, "Intel Processor Trace".
 */
#include "host.h"

#include <string.h>

#include "console/log.h"
#include "fuzz.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define TRACING (RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN)
#define OUTPUT_LOWEST 0x7fULL /* bits that MASK_PTRS has as 1 */
#define OFFSET_SHIFT 32
#define BUFFER_BYTES (4 * PAGE_SIZE)
#define EXITS 40
#define ROUNDS 200
#define LEFT 64 /* bytes: more than what a trace begins with; and a round more for each round */
#define BRANCHES 3000
#define PACKET_TIP_PGE 0x11

static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(BUFFER_BYTES)));
static uint64_t table[4] __attribute__((aligned(PAGE_SIZE)));

static bool offered(const struct job *job)
{
    if (cpuid_extended_features().ebx & CPUID_7_EBX_PT)
        return true;
    tap_skip(job->name, "the processor has no Intel PT");
    return false;
}

static void trace_to(uint64_t base, uint64_t bytes)
{
    wrmsr(IA32_RTIT_OUTPUT_BASE, base);
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, bytes - 1);
    wrmsr(IA32_RTIT_STATUS, 0);
}

/* Conditional branches, and an exit in a guest. */
static __attribute__((noinline)) void work(unsigned rounds, bool exits)
{
    for (volatile unsigned n = 0; n < rounds; n++)
        if (exits)
            (void)cpuid(0, 0);
}

/* ---- the packets of a trace without time. SDM Vol. 3, "Packet Definitions" ---- */

struct packets {
    uint64_t pge, pgd, of_vmx; /* the last: VMCS packets, and PIPs that say non-root */
    bool known;                /* each byte is of a packet that is */
};

/* The bytes of a packet that carries an IP, by the size in its first byte. */
static unsigned ip_packet(uint8_t header)
{
    static const uint8_t bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

    return 1 + bytes[header >> 5];
}

static unsigned extended_packet(const uint8_t *at, struct packets *found)
{
    switch (at[1]) {
    case 0x82:
        return 16; /* PSB */
    case 0x23:
        return 2; /* PSBEND */
    case 0x03:
        return 4; /* CBR */
    case 0xa3:
        return 8; /* TNT, long */
    case 0xf3:
        return 2; /* OVF */
    case 0x83:
        return 2; /* TraceStop */
    case 0xc8:    /* VMCS */
        found->of_vmx++;
        return 7;
    case 0x43: /* PIP */
        found->of_vmx += at[2] & 1;
        return 8;
    default:
        return 0;
    }
}

static unsigned packet(const uint8_t *at, struct packets *found)
{
    uint8_t header = at[0];

    if (header == 0x02)
        return extended_packet(at, found);
    if (header == 0x99) /* MODE */
        return 2;
    if (header == 0x00 || !(header & 1)) /* PAD; TNT, short */
        return 1;
    found->pge += (header & 0x1f) == PACKET_TIP_PGE;
    found->pgd += (header & 0x1f) == PACKET_TIP_PGD;
    switch (header & 0x1f) {
    case 0x0d:
    case 0x1d:
    case PACKET_TIP_PGE:
    case PACKET_TIP_PGD:
        return ip_packet(header);
    default:
        return 0;
    }
}

static struct packets packets_of(uint64_t bytes)
{
    struct packets found = {.known = true};

    for (uint64_t at = 0; at < bytes && found.known;) {
        unsigned size = packet(buffer + at, &found);
        if (size == 0)
            tap_note("packet 0x%02x 0x%02x at byte %lu", buffer[at], buffer[at + 1], at);
        found.known = size != 0;
        at += size;
    }
    return found;
}

/* `pt-exits`: a trace ends at each exit and begins again behind it, and says nothing of VMX. */
void test_pt_exits(const struct job *job)
{
    if (!offered(job))
        return;
    trace_to(fuzz_physical(buffer), BUFFER_BYTES);
    wrmsr(IA32_RTIT_CTL, TRACING);
    work(EXITS, true);
    wrmsr(IA32_RTIT_CTL, 0);
    uint64_t bytes = rdmsr(IA32_RTIT_OUTPUT_MASK_PTRS) >> OFFSET_SHIFT;
    uint64_t status = rdmsr(IA32_RTIT_STATUS), wanted = under_pmuvisor() ? EXITS + 1 : 1;
    struct packets found = packets_of(bytes);
    log_printf("pt: name=%s bytes=%lu status=0x%lx pge=%lu pgd=%lu of_vmx=%lu\n", job->name, bytes,
               status, found.pge, found.pgd, found.of_vmx);
    tap_result(found.known && found.pge == found.pgd && found.pgd >= wanted && found.of_vmx == 0 &&
                   (status & RTIT_STATUS_ERROR) == 0,
               job->name, NULL);
}

/* `pt-on`: what comes after it in this boot is traced, into a ring. */
void test_pt_on(const struct job *job)
{
    if (!offered(job))
        return;
    trace_to(fuzz_physical(buffer), BUFFER_BYTES);
    wrmsr(IA32_RTIT_CTL, TRACING);
    tap_result(rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_TRIGGER_EN, job->name, NULL);
}

/* `pt-still-on`: it is, without an error. */
void test_pt_still_on(const struct job *job)
{
    if (!offered(job))
        return;
    uint64_t status = rdmsr(IA32_RTIT_STATUS);
    tap_result(rdmsr(IA32_RTIT_CTL) == TRACING && status & RTIT_STATUS_TRIGGER_EN &&
                   !(status & RTIT_STATUS_ERROR),
               job->name, NULL);
}

/* ---- output ---- */

/* Whether a trace to this page was refused. */
static bool output_refused(uint64_t page)
{
    trace_to(page, PAGE_SIZE);
    wrmsr(IA32_RTIT_CTL, TRACING);
    work(ROUNDS, false);
    wrmsr(IA32_RTIT_CTL, 0);
    return rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR;
}

/* `pt-hidden`: every page of reserved memory that the guest cannot read takes no trace either; and
 * by a table, one that lies there and one that leads there. */
void test_pt_hidden(const struct job *job)
{
    uint64_t base, size, value, pages = 0, refused = 0, last = 0, nmis = nmi.count;

    if (!offered(job))
        return;
    for (unsigned n = 0; machine_reserved(n, &base, &size); n++)
        for (uint64_t at = base; at < base + size; at += PAGE_SIZE) {
            if (read_try(at, &value))
                continue;
            pages++;
            refused += output_refused(at);
            last = at;
        }
    for (unsigned there = 0; there < 2 && pages != 0; there++) {
        table[0] = last;
        table[1] = fuzz_physical(table) | TOPA_END;
        wrmsr(IA32_RTIT_OUTPUT_BASE, there ? last : fuzz_physical(table));
        wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, OUTPUT_LOWEST);
        wrmsr(IA32_RTIT_STATUS, 0);
        wrmsr(IA32_RTIT_CTL, TRACING | RTIT_CTL_TOPA);
        work(ROUNDS, false);
        wrmsr(IA32_RTIT_CTL, 0);
        refused += (rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR) != 0;
        pages++;
    }
    bool own = !under_pmuvisor() || pages != 0;
    log_printf("pt: name=%s pages=%lu refused=%lu nmis=%lu\n", job->name, pages, refused,
               nmi.count - nmis);
    tap_result(own && refused == pages, job->name, NULL);
}

/* `pt-inject`: the entry that turns a trace on injects an NMI. The page of the trace is translated
 * before that; where it is refused the NMI's delivery is broken off, and it comes all the same,
 * once. */
void test_pt_inject(const struct job *job)
{
    uint64_t base, size, value, pages = 0, right = 0;

    if (!offered(job) || !hypervisor_offers(job, HYPERCALL_TEST_TRACE))
        return;
    for (unsigned n = 0; machine_reserved(n, &base, &size); n++)
        for (uint64_t at = base; at < base + size; at += PAGE_SIZE) {
            if (read_try(at, &value))
                continue;
            uint64_t nmis = nmi.count;
            trace_to(at, PAGE_SIZE);
            (void)hypercall_all(HYPERCALL_TEST_TRACE, TRACING, 0, 0);
            work(ROUNDS, false);
            wrmsr(IA32_RTIT_CTL, 0);
            pages++;
            right += nmi.count == nmis + 1 && rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR;
        }
    log_printf("pt: name=%s pages=%lu right=%lu\n", job->name, pages, right);
    tap_result(pages != 0 && right == pages, job->name, NULL);
}

/* The trace begins by WRMSR, and a breakpoint is on the instruction behind it. */
static bool breakpoint_behind_start(void)
{
    uint64_t behind;
    bool passed;

    __asm__ volatile("lea 2f(%%rip), %0\n\tmov %0, %%dr0" : "=r"(behind));
    write_dr7((uint64_t)DR7_RESET | 1);
    __asm__ volatile("movq $1f, fault_resume(%%rip)\n\t"
                     "movb $0, %0\n\twrmsr\n"
                     "2: movb $1, %0\n"
                     "1: movq $0, fault_resume(%%rip)"
                     : "=&q"(passed)
                     : "c"(IA32_RTIT_CTL), "a"(TRACING), "d"(0)
                     : "memory");
    write_dr7((uint64_t)DR7_RESET);
    return !passed && fault_vector == VECTOR_DB;
}

/* `pt-breakpoint`: a page for the trace that is refused does not pass over the next breakpoint. */
void test_pt_breakpoint(const struct job *job)
{
    uint64_t page = hidden_address() & ~(PAGE_SIZE - 1);

    if (!offered(job))
        return;
    trace_to(page != 0 ? page : fuzz_physical(buffer), PAGE_SIZE);
    bool came = breakpoint_behind_start();
    wrmsr(IA32_RTIT_CTL, 0);
    bool refused = rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR;
    tap_note("refused %d, came %d", refused, came);
    tap_result(came && refused == (page != 0), job->name, NULL);
}

/* `pt-pmi`: two regions of 4 KiB, the first of which interrupts, while the work exits: one NMI for
 * each time that it was full. With a skid they come in root mode as well. */
void test_pt_pmi(const struct job *job)
{
    uint64_t nmis = nmi.count, full = 0;

    if (!offered(job))
        return;
    table[0] = fuzz_physical(buffer) | TOPA_INT;
    table[1] = fuzz_physical(buffer + PAGE_SIZE);
    table[2] = fuzz_physical(table) | TOPA_END;
    for (unsigned round = 0; round < ROUNDS; round++) {
        wrmsr(IA32_RTIT_OUTPUT_BASE, fuzz_physical(table));
        wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS,
              (PAGE_SIZE - LEFT - round) << OFFSET_SHIFT | OUTPUT_LOWEST);
        wrmsr(IA32_RTIT_STATUS, 0);
        apic_write_lvtpc(LVT_NMI);
        wrmsr(IA32_RTIT_CTL, TRACING | RTIT_CTL_TOPA);
        work(EXITS, true);
        work(BRANCHES, false);
        wrmsr(IA32_RTIT_CTL, 0);
        full += (rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_TOPA_PMI) != 0;
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_TOPA_PMI);
    }
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    nmis = nmi.count - nmis;
    log_printf("pt: name=%s full=%lu nmis=%lu\n", job->name, full, nmis);
    tap_result(full == ROUNDS && nmis == full, job->name, NULL);
}
