/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `counted[:RUNS[:LEFT_OUT[:NOT]]]`: instructions and branches that the counters count around one
 * operation, by CPL. Everything is the same natively, under PMUvisor and under KVM: the local APIC
 * is in x2APIC mode, where all of them have it. A line for each operation has the sums of RUNS
 * runs; what belongs to the run alone is that of `empty`. LEFT_OUT: setup(). NOT: operations that
 * are not done, by bits of their numbers, because a hypervisor does not outlive them. SDM Vol. 3,
 * "Architectural Performance Monitoring", "Local APIC", "APIC Timer".
 */
#include "counted.h"

#include "console/log.h"
#include "hypercall.h"
#include "kernel.h"
#include "msr.h"
#include "x86.h"

#define REGION_COUNTED 2800
#define RUNS 16
#define TRIES 400

#define EVENT_INSTRUCTIONS 0x00c0
#define EVENT_BRANCHES 0x00c4
#define SELECTOR (IA32_PERFEVTSEL0 + USER_BRANCHES)
#define EVTSEL_USR BIT(16)
#define COUNTERS_ON BITS(3, 0)
#define FIXED_COUNTER_0 BIT(32)
#define ALL_ON (COUNTERS_ON | FIXED_COUNTER_0)
#define FIXED_0_OS 1
#define FIXED_0_PMI BIT(3)
#define COUNTER_MASK BITS(47, 0)

#define MSR_STAR 0xc0000081
#define MSR_LSTAR 0xc0000082
#define MSR_SFMASK 0xc0000084
#define EFER_SCE BIT(0)
#define STAR_SYSCALL_SHIFT 32
#define STAR_SYSRET_SHIFT 48
#define USER_SELECTOR 0x20 /* SYSRET takes no descriptor of it */

#define VECTOR 0x40
#define X2APIC_ICR 0x830
#define APIC_LVT_TIMER 0x320
#define APIC_TIMER_COUNT 0x380
#define APIC_TIMER_DIVIDE 0x3e0
#define DIVIDE_BY_1 0xb

#define PORT_KERNEL 0x61 /* KVM's own kernel has it */
#define PORT_BUS 0x80    /* nobody's: KVM asks its user program */
#define PORT_ELSEWHERE 0x600
#define BYTES_SHORT 16
#define BYTES_LONG 2048
#define IO_APIC 0xfec00000ULL
#define BUS 0xf0000000ULL /* nobody's */
#define LANDING 0x40ULL
#define OPCODE_RET 0xc3
#define KVM_SIGNATURE 0x4b4d564bu /* "KVMK" */
#define IA32_TSC_DEADLINE 0x6e0
#define FRESH 0x8000000ULL /* memory that nothing has touched, and steps of one EPT entry */
#define FRESH_STEP 0x200000ULL
#define NOT_PRESENT (1ULL << 46)
#define NO_SUCH_HYPERCALL (~0ULL)
#define LOOPS 2000
#define PERIOD 1500
#define STRING 200000
#define STRING_FROM 0x1000000
#define TIMER_FIRST 1000
#define TIMER_STEP 3000
#define TABLE_LEVELS 4
#define TABLE_SHIFT 39
#define TABLE_INDEX 0x1ff

struct row {
    const char *name;
    void (*run)(void);           /* the operation */
    struct counted_registers in; /* it begins with them, after begin() */
    /* Before each run; NULL: nothing to do. False: the operation cannot be done here. */
    bool (*begin)(struct counted_registers *registers);
    void (*end)(void);
    unsigned events; /* that come in a run */
};

static uint64_t runs, fresh, timer;
static uint8_t bytes[BYTES_LONG] __attribute__((aligned(4096))); /* KVM reads ahead in a page */

static bool port_elsewhere(struct counted_registers *r)
{
    r->rdx = machine_pm1a_control() != 0 ? machine_pm1a_control() : PORT_ELSEWHERE;
    return true;
}

/* What is written to the port is what it holds. */
static bool port_value(struct counted_registers *r)
{
    uint8_t value = inb((uint16_t)r->rdx);

    for (unsigned i = 0; i < BYTES_SHORT; i++)
        bytes[i] = value;
    return true;
}

/* RDMSR's index, for WRMSR with the value that the register has. */
static bool msr_value(struct counted_registers *r)
{
    uint64_t value = rdmsr((uint32_t)r->rcx);

    r->rax = (uint32_t)value;
    r->rdx = value >> 32;
    return true;
}

static bool xcr0(struct counted_registers *r)
{
    uint32_t low, high;

    if (!(cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE))
        return false;
    write_cr4(read_cr4() | CR4_OSXSAVE);
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    *r = (struct counted_registers){.rax = low, .rdx = high};
    return true;
}

static bool own_cr3(struct counted_registers *r)
{
    r->rdi = read_cr3();
    return true;
}

static bool address_fresh(struct counted_registers *r)
{
    r->rdi = fresh;
    fresh += FRESH_STEP;
    return true;
}

/* Under KVM the pointer is a register of its I/O APIC, so that KVM executes the jump; elsewhere
 * this register has no 64 bits to read, and it is in memory. */
static bool pointer(struct counted_registers *r)
{
    static uint64_t in_memory;

    in_memory = (uintptr_t)counted_empty;
    r->rdi = (uintptr_t)&in_memory;
    if (cpuid(CPUID_HV_SIGNATURE, 0).ebx == KVM_SIGNATURE) {
        __asm__ volatile("movb %0, (%1)" : : "q"((uint8_t)OPCODE_RET), "r"(LANDING) : "memory");
        *(volatile uint32_t *)IO_APIC = LANDING;
        r->rdi = IO_APIC;
    }
    return true;
}

/* ---- events ---- */

static bool pending(struct counted_registers *r)
{
    (void)r;
    apic_send(apic_id(), ICR_FIXED | VECTOR);
    return true;
}

static bool to_self(struct counted_registers *r)
{
    r->rcx = X2APIC_ICR;
    r->rdx = apic_id();
    return true;
}

/* The interrupt of a run that had IF = 0. */
static void take_interrupt(void)
{
    counted_open();
    apic_eoi();
}

static bool overflow_soon(struct counted_registers *r)
{
    (void)r;
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_FIXED_CTR0, -PERIOD & COUNTER_MASK);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS | FIXED_0_PMI);
    return true;
}

static void overflow_over(void)
{
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    apic_write_lvtpc(LVT_NMI);
}

static bool start_timer(struct counted_registers *r)
{
    (void)r;
    timer += TIMER_STEP;
    apic_write(APIC_TIMER_COUNT, (uint32_t)timer);
    return true;
}

static bool split(void)
{
    return counted_from == (uintptr_t)counted_string_here && counted_left != 0 &&
           counted_left < STRING;
}

static void stop_timer(void)
{
    apic_write(APIC_TIMER_COUNT, 0);
    apic_eoi();
}

/* ---- all of them ---- */

#define STRING_OF(port, count)                                                                     \
    {.rdx = (port), .rcx = (count), .rsi = (uintptr_t)bytes, .rdi = (uintptr_t)bytes}
static const struct row rows[] = {
    {.name = "empty", .run = counted_empty},
    {.name = "cpuid", .run = counted_cpuid},
    {.name = "rdmsr", .run = counted_rdmsr, .in = {.rcx = IA32_FEATURE_CONTROL}},
    {.name = "wrmsr", .run = counted_wrmsr, .in = {.rcx = IA32_MISC_ENABLE}, .begin = msr_value},
    {.name = "wrmsr_deadline", .run = counted_wrmsr, .in = {.rcx = IA32_TSC_DEADLINE}},
    {.name = "rdmsr_status", .run = counted_rdmsr, .in = {.rcx = IA32_PERF_GLOBAL_STATUS}},
    {.name = "wrmsr_selector", .run = counted_wrmsr, .in = {.rcx = SELECTOR}, .begin = msr_value},
    {.name = "rdpmc", .run = counted_rdpmc},
    {.name = "in_kernel", .run = counted_in, .in = {.rdx = PORT_KERNEL}},
    {.name = "in_user", .run = counted_in, .begin = port_elsewhere},
    {.name = "out_user", .run = counted_out, .in = {.rdx = PORT_BUS}},
    {.name = "outs_user", .run = counted_outs, .in = STRING_OF(PORT_BUS, BYTES_SHORT)},
    {.name = "outs_kernel",
     .run = counted_outs,
     .in = STRING_OF(PORT_KERNEL, BYTES_SHORT),
     .begin = port_value},
    {.name = "ins_kernel", .run = counted_ins, .in = STRING_OF(PORT_KERNEL, BYTES_SHORT)},
    {.name = "ins_kernel_long", .run = counted_ins, .in = STRING_OF(PORT_KERNEL, BYTES_LONG)},
    {.name = "xsetbv", .run = counted_xsetbv, .begin = xcr0},
    {.name = "invd", .run = counted_invd},
    {.name = "wbinvd", .run = counted_wbinvd},
    {.name = "vmcall", .run = counted_vmcall, .in = {.rax = NO_SUCH_HYPERCALL}},
    {.name = "mov_cr3", .run = counted_cr3, .begin = own_cr3},
    {.name = "page_fault", .run = counted_read, .in = {.rdi = NOT_PRESENT}, .events = 1},
    {.name = "ept_violation", .run = counted_read, .begin = address_fresh},
    {.name = "device_read", .run = counted_read, .in = {.rdi = IO_APIC}},
    {.name = "device_stos", .run = counted_stos, .in = {.rdi = BUS, .rcx = BYTES_SHORT}},
    {.name = "device_jump", .run = counted_jump, .begin = pointer},
    {.name = "ipi",
     .run = counted_icr,
     .in = {.rax = ICR_FIXED | VECTOR},
     .begin = to_self,
     .end = take_interrupt},
    {.name = "interrupt", .run = counted_open, .begin = pending, .end = apic_eoi, .events = 1},
    {.name = "hlt", .run = counted_halt, .begin = pending, .end = apic_eoi, .events = 1},
    {.name = "nmi",
     .run = counted_icr,
     .in = {.rax = ICR_NMI | ICR_ASSERT},
     .begin = to_self,
     .events = 1},
    {.name = "loop", .run = counted_loop, .in = {.rcx = LOOPS}},
    {.name = "pmi",
     .run = counted_loop,
     .in = {.rcx = LOOPS},
     .begin = overflow_soon,
     .end = overflow_over,
     .events = 1},
    {.name = "string", .run = counted_string, .in = {.rcx = STRING, .rsi = STRING_FROM}},
    {.name = "string_split",
     .run = counted_string,
     .in = {.rcx = STRING, .rsi = STRING_FROM},
     .begin = start_timer,
     .end = stop_timer,
     .events = 1},
    {.name = "step", .run = counted_step, .events = 6},
    {.name = "step_cpuid", .run = counted_step_cpuid, .events = 6},
    {.name = "int3", .run = counted_int3, .events = 1},
    {.name = "int1", .run = counted_icebp, .events = 1},
    {.name = "stop_start",
     .run = counted_stop_start,
     .in = {.rcx = IA32_PERF_GLOBAL_CTRL, .rsi = (uint32_t)ALL_ON, .rdi = ALL_ON >> 32}},
    {.name = "user_empty", .run = counted_user_empty},
    {.name = "syscall", .run = counted_user_call},
    {.name = "user_cpuid", .run = counted_user_cpuid},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* One run; false: it was not what it should be. */
static bool one_run(const struct row *row, struct counted_run *run, unsigned *strange)
{
    uint64_t events;

    run->registers = row->in;
    if (row->begin != NULL && !row->begin(&run->registers))
        return false;
    events = counted_events;
    counted_run(run);
    events = counted_events - events;
    if (row->end != NULL)
        row->end();
    if (row->begin == start_timer)
        return events == 1 && split();
    *strange += events != row->events;
    return true;
}

static bool one_row(const struct row *row, unsigned number)
{
    struct counted_run run = {.operation = row->run, .region = 0};
    int64_t sums[COUNTED_COUNTERS] = {0}, least = INT64_MAX, most = INT64_MIN;
    unsigned done = 0, strange = 0;
    bool tries = row->begin == start_timer;

    if (row->run == counted_vmcall && !(cpuid(1, 0).ecx & BIT(31)))
        run.operation = counted_nop;
    timer = TIMER_FIRST;
    /* The first one warms up, outside the region. */
    for (unsigned n = 0; done <= runs && n <= (tries ? TRIES : runs); n++) {
        run.region = done == 0 || tries ? 0 : REGION_COUNTED + number;
        bool good = one_run(row, &run, &strange);
        if (!good && !tries)
            break;
        if (good && done++ > 0) {
            int64_t each = (int64_t)(run.after[0] - run.before[0]);
            least = each < least ? each : least;
            most = each > most ? each : most;
            for (unsigned i = 0; i < COUNTED_COUNTERS; i++)
                sums[i] += (int64_t)(run.after[i] - run.before[i]);
        }
    }
    if (done <= runs) {
        log_printf("counted: row=%s skip=\"%u runs, wanted %lu and one before them\"\n", row->name,
                   done, runs);
        return true;
    }
    log_printf("counted: row=%s runs=%lu instructions=%ld branches=%ld user_instructions=%ld "
               "user_branches=%ld least=%ld most=%ld strange=%u region=%u\n",
               row->name, runs, sums[KERNEL_INSTRUCTIONS], sums[KERNEL_BRANCHES],
               sums[USER_INSTRUCTIONS], sums[USER_BRANCHES], least, most, strange,
               tries ? 0 : REGION_COUNTED + number);
    return strange == 0;
}

/* User mode may execute this page: the bit in each table on the way to it. */
static void allow_user(uint64_t address)
{
    uint64_t *table = (uint64_t *)(read_cr3() & PTE_ADDRESS);

    for (unsigned level = 0; level < TABLE_LEVELS; level++) {
        uint64_t *entry = &table[address >> (TABLE_SHIFT - 9 * level) & TABLE_INDEX];
        *entry |= PTE_US;
        table = (uint64_t *)(*entry & PTE_ADDRESS);
    }
    write_cr3(read_cr3());
}

/* So many counters are left without their event, to see that the answer is another one. */
static void setup(unsigned left_out)
{
    static const uint64_t events[COUNTED_COUNTERS] = {
        EVENT_INSTRUCTIONS | EVTSEL_OS, EVENT_BRANCHES | EVTSEL_OS, EVENT_INSTRUCTIONS | EVTSEL_USR,
        EVENT_BRANCHES | EVTSEL_USR};

    cpu_setup_smp();
    cpu_gate_smp(VECTOR, counted_interrupt, 0);
    cpu_gate_smp(VECTOR_NMI, counted_interrupt, 0);
    cpu_gate_smp(VECTOR_DB, counted_interrupt, 0);
    cpu_gate_smp(VECTOR_BP, counted_interrupt, 0);
    cpu_gate_smp(VECTOR_PF, counted_fault, 0);
    cpu_handlers(false);
    apic_software_enable(true);
    apic_write(APIC_LVT_TIMER, VECTOR);
    apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_1);
    apic_write_lvtpc(LVT_NMI);
    allow_user((uintptr_t)counted_user_page);
    /* The emulator takes this for a kernel's start: MSRs that do not exist fault from now on. */
    wrmsr(MSR_LSTAR, (uintptr_t)counted_entry);
    wrmsr(MSR_STAR, (uint64_t)USER_SELECTOR << STAR_SYSRET_SHIFT | (uint64_t)CODE_SELECTOR
                                                                       << STAR_SYSCALL_SHIFT);
    wrmsr(MSR_SFMASK, 0);
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE);
    fresh = FRESH;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    for (unsigned i = 0; i < COUNTED_COUNTERS; i++) {
        wrmsr(IA32_PERFEVTSEL0 + i, i < left_out ? 0 : events[i] | EVTSEL_EN);
        wrmsr(IA32_PMC0 + i, 0);
    }
    wrmsr(IA32_PERF_GLOBAL_CTRL, ALL_ON);
}

/* Alone, or on another processor than the first: the IDT is the one that was there. */
void test_counted(const struct job *job)
{
    struct table_register idt;
    bool good = true;

    __asm__ volatile("sidt %0" : "=m"(idt));

    runs = job->number[0] != 0 ? job->number[0] : RUNS;
    if (!apic_x2() && !apic_enter_x2()) {
        tap_skip(job->name, "the local APIC has no x2APIC mode");
        return;
    }
    setup((unsigned)job->number[1]);
    for (unsigned n = 0; n < ROWS; n++)
        good = (job->number[2] >> n & 1 || one_row(&rows[n], n + 1)) && good;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    for (unsigned i = 0; i < COUNTED_COUNTERS; i++)
        wrmsr(IA32_PERFEVTSEL0 + i, 0);
    __asm__ volatile("lidt %0" : : "m"(idt));
    tap_result(good, job->name, good ? NULL : "an event was too many or did not come");
}
