/* SPDX-License-Identifier: BSD-2-Clause
 *
 * PEBS by the debug store, with exits between the sampled instructions: each record is of the
 * instruction that it has to be of; the buffer's threshold raises a PMI that shows in one bit
 * alone; and an access to a buffer that is not there faults, or is refused. The debug store is at
 * addresses that root mode does not have, the kernel's own. SDM Vol. 3, "Processor Event Based
 * Sampling (PEBS)", "BTS and DS Save Area"; the record is Skylake's, format 3.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define PERIOD 24
#define EVENT_INSTRUCTIONS 0xc0
#define PERFEVTSEL_OS BIT(17)
#define PERFEVTSEL_EN BIT(22)
#define GLOBAL_STATUS_OVF_BUFFER BIT(62)
#define RECORD_BYTES 200
#define RECORD_EVENTING_IP 22 /* words */
#define RECORD_STATUS 18
#define THRESHOLD_RECORDS 20
#define NOWHERE 0xffff800000000000ULL /* not in this kernel's page tables */

/* Blocks of xor, cpuid and nops. */
#define BLOCKS "55"
#define NOPS "14"
#define NOPS_BEHIND "50" /* for a record that is late */
#define BLOCK_BYTES 18
#define BLOCK_FIRST_NOP 4
#define BLOCK_INSTRUCTIONS 16

static struct debug_store ds __attribute__((aligned(PAGE_SIZE)));
static uint64_t buffer[64 * RECORD_BYTES / 8] __attribute__((aligned(PAGE_SIZE)));

static bool offered(const struct job *job)
{
    uint64_t misc;

    if (cpuid(1, 0).edx & CPUID_1_EDX_DS && rdmsr_try(IA32_MISC_ENABLE, &misc) &&
        !(misc & MISC_ENABLE_PEBS_UNAVAILABLE))
        return true;
    tap_skip(job->name, "the processor has no PEBS");
    return false;
}

void sampling_on(uint64_t at)
{
    ds.base = ds.index = at;
    ds.maximum = at + sizeof(buffer);
    ds.threshold = at + THRESHOLD_RECORDS * RECORD_BYTES;
    ds.reset[0] = BIT(COUNTER_WIDTH) - PERIOD;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_STATUS_OVF_BUFFER | 1);
    wrmsr(IA32_DS_AREA, (uint64_t)&ds);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | PERFEVTSEL_OS | PERFEVTSEL_EN);
    wrmsr(IA32_A_PMC0, BIT(COUNTER_WIDTH) - PERIOD);
    wrmsr(IA32_PEBS_ENABLE, 1);
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
}

void sampling_off(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PEBS_ENABLE, 0);
    wrmsr(IA32_DS_AREA, 0);
    wrmsr(IA32_PERFEVTSEL0, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, GLOBAL_STATUS_OVF_BUFFER | 1);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
}

/* The blocks and some nops behind; gives the first one's address. */
static uint64_t run_blocks(void)
{
    uint64_t first;

    __asm__ volatile("lea 1f(%%rip), %0\n"
                     "1:\n\t"
                     ".rept " BLOCKS "\n\t"
                     "xor %%eax, %%eax\n\t"
                     "cpuid\n\t"
                     ".rept " NOPS "\n\t"
                     "nop\n\t"
                     ".endr\n\t"
                     ".endr\n\t"
                     ".rept " NOPS_BEHIND "\n\t"
                     "nop\n\t"
                     ".endr"
                     : "=&S"(first)
                     :
                     : "rax", "rbx", "rcx", "rdx", "cc", "memory");
    return first;
}

/* How many instructions are counted up to this one: a CPUID that exits is none of the guest's. */
static uint64_t counted(uint64_t offset)
{
    uint64_t in = offset % BLOCK_BYTES, exits = under_pmuvisor();
    uint64_t each = BLOCK_INSTRUCTIONS - exits;

    return offset / BLOCK_BYTES * each +
           (in < BLOCK_FIRST_NOP ? in / 2 : 2 - exits + in - BLOCK_FIRST_NOP);
}

static uint64_t records(void) { return (ds.index - ds.base) / RECORD_BYTES; }

/* `pebs-records`: the distance of all records up to the PMI, and what the PMI shows. */
void test_pebs_records(const struct job *job)
{
    uint64_t nmis = nmi.count, first, status, wrong = 0, apart = 0;

    if (!offered(job))
        return;
    sampling_on((uint64_t)buffer);
    first = run_blocks();
    status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    sampling_off();
    for (uint64_t i = 1; i < THRESHOLD_RECORDS; i++) {
        const uint64_t *one = buffer + i * RECORD_BYTES / 8, *before = one - RECORD_BYTES / 8;

        apart = counted(one[RECORD_EVENTING_IP] - first) -
                counted(before[RECORD_EVENTING_IP] - first);
        wrong += apart != PERIOD + 1 || one[RECORD_STATUS] != 1;
        if (apart != PERIOD + 1)
            tap_note("record %lu: 0x%lx, %lu instructions behind the one before", i,
                     one[RECORD_EVENTING_IP], apart);
    }
    nmis = nmi.count - nmis;
    log_printf("sampling: name=%s records=%lu wrong=%lu pmis=%lu status=0x%lx\n", job->name,
               records(), wrong, nmis, status);
    tap_result(records() > THRESHOLD_RECORDS && wrong == 0 && nmis == 1 &&
                   status == GLOBAL_STATUS_OVF_BUFFER,
               job->name, NULL);
}

/* Nops until the record's access faults, or to the end. */
static bool run_until_fault(uint64_t at)
{
    bool done;

    sampling_on(at);
    __asm__ volatile("movq $1f, fault_resume(%%rip)\n\t"
                     "movb $0, %0\n\t"
                     ".rept 60\n\tnop\n\t.endr\n\t"
                     "movb $1, %0\n"
                     "1: movq $0, fault_resume(%%rip)"
                     : "=&q"(done)
                     :
                     : "memory", "cc");
    sampling_off();
    return done;
}

/* `pebs-faults`: a buffer at an address without a page, and one in memory that is hidden. */
void test_pebs_faults(const struct job *job)
{
    uint64_t hidden = hidden_address();
    bool good;

    if (!offered(job))
        return;
    good = !run_until_fault(NOWHERE) && fault_vector == VECTOR_PF && records() == 0;
    if (hidden != 0)
        good &= !run_until_fault(hidden) && fault_vector == VECTOR_GP && records() == 0;
    good &= run_until_fault((uint64_t)buffer) && records() != 0;
    tap_result(good, job->name, NULL);
}

#define STORES 60
#define STORED 0x20 /* a priority, should it come there */

/* `pebs-apic`, with apic=trap: the buffer is the local APIC's page. The record is refused, and is
 * none of the stores around it: each is where it has to be, up to the #GP, and the APIC has none.
 * */
void test_pebs_apic(const struct job *job)
{
    static volatile uint32_t words[STORES];
    uint64_t faults = fault_count, stored = 0, misplaced = 0;

    if (!offered(job))
        return;
    sampling_on(APIC_PAGE + APIC_TPR);
    __asm__ volatile("movq $1f, fault_resume(%%rip)\n\t"
                     ".set at, 0\n\t"
                     ".rept 60\n\tmovl %0, at(%1)\n\t.set at, at + 4\n\t.endr\n"
                     "1:\tmovq $0, fault_resume(%%rip)"
                     :
                     : "a"(STORED), "D"(words)
                     : "memory");
    sampling_off();
    while (stored < STORES && words[stored] == STORED)
        stored++;
    for (uint64_t i = stored; i < STORES; i++)
        misplaced += words[i] != 0;
    bool faulted = fault_count == faults + 1 && fault_vector == VECTOR_GP;
    uint32_t priority = apic_read(APIC_TPR);
    log_printf("sampling: name=%s stored=%lu misplaced=%lu faulted=%u priority=0x%x records=%lu\n",
               job->name, stored, misplaced, faulted, priority, records());
    apic_write(APIC_TPR, 0);
    tap_result(stored > 0 && misplaced == 0 && faulted == (stored < STORES) && priority == 0 &&
                   records() == 0,
               job->name, NULL);
}

/* `pebs-late`: with the knob of that name a record may come in root mode; all that is asked here is
 * that nothing else happens. */
void test_pebs_late(const struct job *job)
{
    if (!offered(job))
        return;
    sampling_on((uint64_t)buffer);
    (void)run_blocks();
    sampling_off();
    log_printf("sampling: name=%s records=%lu\n", job->name, records());
    tap_result(records() != 0, job->name, NULL);
}

/* IA32_PEBS_ENABLE over exits: the guest's own in the guest, and in root mode what a processor
 * whose PEBS is not isolated needs, 0. */
#define EXITS 64

/* `pebs`: another value before each exit; what root mode saw of the last one is in the line. */
void test_pebs(const struct job *job)
{
    uint64_t kept = 0, in_root = 0, value;

    if (!hypervisor_offers(job, HYPERCALL_TEST_MSR))
        return;
    if (!wrmsr_try(IA32_PEBS_ENABLE, 1)) {
        tap_skip(job->name, "the processor has no IA32_PEBS_ENABLE");
        return;
    }
    for (uint64_t i = 1; i <= EXITS; i++) {
        wrmsr(IA32_PEBS_ENABLE, i);
        region_mark(REGION_PEBS, true);
        (void)cpuid(0, 0);
        region_mark(REGION_PEBS, false);
        struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_MSR, IA32_PEBS_ENABLE, 0, 0);
        in_root |= r.rax == 0 ? r.rbx : ~0ULL;
        kept += rdmsr_try(IA32_PEBS_ENABLE, &value) && value == i;
    }
    wrmsr(IA32_PEBS_ENABLE, 0);
    log_printf("pebs: name=%s kept=%lu in_root=%lu\n", job->name, kept, in_root);
    tap_result(kept == EXITS && in_root == 0, job->name, NULL);
}
