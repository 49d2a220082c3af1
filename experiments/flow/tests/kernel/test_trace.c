/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace=exits: HYPERCALL_TRACE, the ring, and the record of each kind of exit. The other levels are
 * in test_trace_flow.c. SDM Vol. 3, "VMX Basic Exit Reasons", "Guest Non-Register State".
 */
#include "trace.h"

#include "host.h"
#include "hypercall.h"
#include "msr.h"
#include "vmx.h"
#include "x86.h"

#define ROUNDS 50
#define NO_HYPERCALL 0x7fffffff
#define MSR_NOBODYS 0x40000000
#define LEAF_TRIED 0x80000000u
#define LEAF_MARK 0x10000u /* nobody's leaves: one for each record of the wrap */
#define BEYOND 100         /* records behind a full ring */
#define PORT_SHIFT 16
#define IN_OF_2_BYTES 9 /* exit qualification: size - 1, and bit 3: IN */
#define PAGE_SHIFT 12
#define BLOCKED_STI 1
#define BLOCKED_MOV_SS 2

static uint64_t hidden;
static uint16_t port;

/* Each executes one instruction that exits, and gives what its record has to be. */
typedef struct trace_wanted (*exit_once)(void);

static struct trace_wanted wanted(uint8_t reason, uint64_t rip, uint32_t detail)
{
    return (struct trace_wanted){
        .reason = reason, .rip = rip, .detail = detail, .cr3 = trace_cr3()};
}

/* `before` the CPUID, and what blocks interrupts there. */
#define CPUID_EXIT(name, before, after, flags_there)                                               \
    static struct trace_wanted name(void)                                                          \
    {                                                                                              \
        uint64_t rip;                                                                              \
        uint32_t eax = LEAF_TRIED, ecx = 0, ss = DATA_SELECTOR;                                    \
        __asm__ volatile("lea 1f(%%rip), %0\n\t" before "1:\tcpuid\n\t" after                      \
                         : "=&r"(rip), "+a"(eax), "+c"(ecx), "+d"(ss)                              \
                         :                                                                         \
                         : "rbx", "memory", "cc");                                                 \
        struct trace_wanted w = wanted(EXIT_REASON_CPUID, rip, LEAF_TRIED);                        \
        w.flags = flags_there;                                                                     \
        return w;                                                                                  \
    }
CPUID_EXIT(cpuid_once, "", "", 0)
CPUID_EXIT(cpuid_sti, "sti\n", "cli\n\t", BLOCKED_STI)
CPUID_EXIT(cpuid_mov_ss, "mov %%edx, %%ss\n", "", BLOCKED_MOV_SS)

static struct trace_wanted rdmsr_once(void)
{
    uint64_t rip;
    uint32_t eax, edx;

    __asm__ volatile("lea 1f(%%rip), %0\n1:\trdmsr"
                     : "=&r"(rip), "=a"(eax), "=d"(edx)
                     : "c"(IA32_FEATURE_CONTROL));
    return wanted(EXIT_REASON_RDMSR, rip, IA32_FEATURE_CONTROL);
}

static struct trace_wanted wrmsr_once(void)
{
    uint64_t rip, value = rdmsr(IA32_APIC_BASE);

    __asm__ volatile("lea 1f(%%rip), %0\n1:\twrmsr"
                     : "=&r"(rip)
                     : "c"(IA32_APIC_BASE), "a"((uint32_t)value), "d"(value >> 32));
    return wanted(EXIT_REASON_WRMSR, rip, IA32_APIC_BASE);
}

/* One that is refused is an exit as well. */
static struct trace_wanted wrmsr_refused(void)
{
    uint64_t rip;

    __asm__ volatile("lea 2f(%%rip), %0\n\tmov %0, %1\n\tlea 1f(%%rip), %0\n"
                     "1:\twrmsr\n\tmovq $0, %1\n2:"
                     : "=&r"(rip), "=m"(fault_resume)
                     : "c"(MSR_NOBODYS), "a"(0), "d"(0)
                     : "memory");
    return wanted(EXIT_REASON_WRMSR, rip, MSR_NOBODYS);
}

static struct trace_wanted vmcall_with(uint64_t number, uint64_t argument)
{
    uint64_t rip, rax = number, rbx = argument;

    __asm__ volatile("lea 1f(%%rip), %0\n1:\tvmcall"
                     : "=&r"(rip), "+a"(rax), "+b"(rbx)
                     :
                     : "rcx", "rdx", "memory");
    return wanted(EXIT_REASON_VMCALL, rip, (uint32_t)number);
}

static struct trace_wanted vmcall_refused(void) { return vmcall_with(NO_HYPERCALL, 0); }
static struct trace_wanted vmcall_ask(void) { return vmcall_with(HYPERCALL_TRACE, TRACE_ASK); }

static struct trace_wanted in_once(void)
{
    uint64_t rip;
    uint16_t value;

    __asm__ volatile("lea 1f(%%rip), %0\n1:\tinw %%dx, %%ax" : "=&r"(rip), "=a"(value) : "d"(port));
    return wanted(EXIT_REASON_IO_INSTRUCTION, rip, (uint32_t)port << PORT_SHIFT | IN_OF_2_BYTES);
}

static struct trace_wanted read_hidden(void)
{
    uint64_t rip;

    __asm__ volatile("lea 2f(%%rip), %0\n\tmov %0, %1\n\tlea 1f(%%rip), %0\n"
                     "1:\tmov (%2), %%rax\n\tmovq $0, %1\n2:"
                     : "=&r"(rip), "=m"(fault_resume)
                     : "r"(hidden)
                     : "rax", "memory");
    return wanted(EXIT_REASON_EPT_VIOLATION, rip, (uint32_t)(hidden >> PAGE_SHIFT));
}

static const struct {
    const char *name;
    exit_once run;
    bool faults;
} exits[] = {
    {"CPUID", cpuid_once, false},
    {"CPUID behind STI", cpuid_sti, false},
    {"CPUID behind MOV SS", cpuid_mov_ss, false},
    {"RDMSR", rdmsr_once, false},
    {"WRMSR", wrmsr_once, false},
    {"WRMSR that is refused", wrmsr_refused, true},
    {"VMCALL", vmcall_refused, false},
    {"VMCALL that asks", vmcall_ask, false},
    {"IN", in_once, false},
    {"EPT violation", read_hidden, true},
};
#define EXITS (sizeof(exits) / sizeof(exits[0]))

static bool record_of_each(void)
{
    bool good = true;

    for (unsigned i = 0; i < EXITS; i++) {
        uint64_t written = trace_ring->written, faults = fault_count;
        for (unsigned n = 0; n < ROUNDS && good; n++) {
            trace_mark();
            struct trace_wanted w = exits[i].run();
            /* What is made to know where to look may exit, too: the record is the last one then. */
            good = trace_next(exits[i].name, w) && trace_no_more(exits[i].name);
        }
        good = good && trace_ring->written == written + ROUNDS &&
               fault_count == faults + (exits[i].faults ? ROUNDS : 0);
        if (!good) {
            tap_note("%s: %lu records and %lu faults of %d exits", exits[i].name,
                     trace_ring->written - written, fault_count - faults, ROUNDS);
            break;
        }
    }
    return good;
}

/* A write is refused as one to hidden memory is; the ring gets that exit's record alone. */
static bool write_refused(void)
{
    volatile struct trace_ring *ring = (volatile struct trace_ring *)(uintptr_t)trace_ring;
    uint64_t rip, faults = fault_count;
    struct trace_record first = trace_record(0);
    volatile uint64_t *targets[] = {
        &ring->magic, &ring->written,
        (volatile uint64_t *)((volatile char *)ring + TRACE_RING_HEADER_BYTES)};
    bool good = true;

    for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        trace_mark();
        __asm__ volatile("lea 2f(%%rip), %0\n\tmov %0, %1\n\tlea 1f(%%rip), %0\n"
                         "1:\tmovq $0, (%2)\n\tmovq $0, %1\n2:"
                         : "=&r"(rip), "=m"(fault_resume)
                         : "r"(targets[i])
                         : "memory");
        good = fault_count == faults + i + 1 && fault_vector == VECTOR_GP &&
               trace_next("a write to the ring",
                          wanted(EXIT_REASON_EPT_VIOLATION, rip,
                                 (uint32_t)((uintptr_t)targets[i] >> PAGE_SHIFT))) &&
               trace_no_more("a write to the ring") && good;
    }
    good = good && ring->magic == TRACE_RING_MAGIC && trace_record(0).tsc == first.tsc;
    if (!good)
        tap_note("a write to the ring: %lu faults, magic 0x%lx", fault_count - faults, ring->magic);
    return good;
}

static bool header_right(void)
{
    bool good = trace_ring->magic == TRACE_RING_MAGIC &&
                trace_ring->version == TRACE_RING_VERSION &&
                trace_ring->record_bytes == sizeof(struct trace_record) &&
                trace_ring->capacity != 0 && trace_ring->apic_id == apic_id();

    if (!good)
        tap_note("header: version %u, %u bytes, capacity %lu, APIC ID %u of %u",
                 trace_ring->version, trace_ring->record_bytes, trace_ring->capacity,
                 trace_ring->apic_id, apic_id());
    return good;
}

/* What is refused changes nothing but RAX. */
static bool refused(uint64_t level, int64_t error)
{
    struct hypercall_registers r = hypercall_all(HYPERCALL_TRACE, level, ROUNDS, ~level);

    if ((int64_t)r.rax == error && r.rbx == level && r.rcx == ROUNDS && r.rdx == ~level)
        return true;
    tap_note("level %lu: found %ld, wanted %ld", level, (int64_t)r.rax, error);
    return false;
}

static bool levels_right(uint64_t now)
{
    struct hypercall_registers r = hypercall_all(HYPERCALL_TRACE, TRACE_ASK, 0, ~now);
    bool good = r.rax == now && trace_ring->level == now && r.rdx == ~now &&
                r.rcx ==
                    TRACE_RING_HEADER_BYTES + trace_ring->capacity * sizeof(struct trace_record);

    if (!good)
        tap_note("level %lu, in the ring %u, wanted %lu; %lu bytes", r.rax, trace_ring->level, now,
                 r.rcx);
    return refused(TRACE_FLOW + 1, HYPERCALL_E_ARGUMENT) &&
           (now == TRACE_FLOW || refused(TRACE_FLOW, HYPERCALL_E_SUPPORT)) && good;
}

/* The call that turns it off is the last record and says so; that which turns it on is none. */
static bool off_and_on(uint64_t level)
{
    trace_mark();
    struct trace_wanted ends = vmcall_with(HYPERCALL_TRACE, TRACE_OFF);
    ends.flags |= TRACE_ENDS;
    bool good = trace_next("VMCALL that ends it", ends) && trace_ring->level == TRACE_OFF;
    region_mark(REGION_TRACE_OFF, true);
    for (unsigned n = 0; n < ROUNDS; n++)
        (void)cpuid(0, 0);
    region_mark(REGION_TRACE_OFF, false);
    good = trace_level(TRACE_ASK) == TRACE_OFF && trace_no_more("off") && good;
    good = trace_level(level) == TRACE_OFF && trace_no_more("on again") && good;
    trace_mark();
    return trace_next("CPUID, on again", cpuid_once()) && trace_no_more("CPUID") && good;
}

/* `trace`, under trace=exits or trace=flow. `trace:none`: there is nothing of it. */
void test_trace(const struct job *job)
{
    if (job->word[0] != '\0') {
        bool shown = cpuid(CPUID_HV_FEATURES, 0).ecx & BIT(HYPERCALL_TRACE);
        tap_result(!shown && refused(TRACE_ASK, HYPERCALL_E_NUMBER), job->name, NULL);
        return;
    }
    if (!trace_begin(job))
        return;
    uint64_t level = (uint64_t)trace_level(TRACE_ASK);
    hidden = hidden_address();
    port = machine_pm1a_control();
    bool good = hidden != 0 && port != 0 && header_right() && levels_right(level) &&
                record_of_each() && write_refused() && off_and_on(level);
    region_mark(REGION_TRACE, true);
    for (unsigned n = 0; n < ROUNDS; n++)
        (void)cpuid(0, 0);
    region_mark(REGION_TRACE, false);
    tap_result(good, job->name, NULL);
}

/* More exits than the ring holds: the last ones are all there, in their order. */
void test_trace_wrap(const struct job *job)
{
    uint64_t lost = 0, previous = 0;

    if (!trace_begin(job))
        return;
    uint64_t capacity = trace_ring->capacity, first = trace_ring->written;
    for (uint64_t n = 0; n < capacity + BEYOND; n++)
        (void)cpuid(LEAF_MARK + (uint32_t)n, 0);
    uint64_t written = trace_ring->written;
    for (uint64_t n = written - capacity; n != written; n++) {
        struct trace_record r = trace_record(n);
        lost += r.detail != (uint32_t)(LEAF_MARK + n - first) || r.reason != EXIT_REASON_CPUID ||
                r.tsc <= previous;
        previous = r.tsc;
    }
    if (lost != 0 || written != first + capacity + BEYOND)
        tap_note("%lu of %lu records are not those of the last exits; %lu were written", lost,
                 capacity, written - first);
    tap_result(lost == 0 && written == first + capacity + BEYOND, job->name, NULL);
}
