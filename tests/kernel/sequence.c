/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The fuzzer of sequences: some instructions at a time, under breakpoints, single step, shadows,
 * events and PMIs. They have to give the same natively and under PMUvisor, whatever its options.
 * `sequence:SEED:FIRST:COUNT:VARIANT` prints a hash of each STEP of them, `sequence:each:...` of
 * each one, `sequence:verbose:...` the events of the last STEP. VARIANT: enum sequence_variant. A
 * fifth number tells what is kept of each sequence: see sequence.h.
 */
#include "sequence.h"

#include "console/log.h"

#define STEP SEQUENCE_STEP
#define WHOLE_STEPS 16 /* after so many steps the data are looked at as a whole */
#define XCR0_FIRST 7
#define BRANCHES_ON 0x5300c4ULL       /* BR_INST_RETIRED.ALL_BRANCHES: USR, OS, INT, EN */
#define INSTRUCTIONS_USER 0x4100c0ULL /* INST_RETIRED.ANY_P: USR, EN */
#define BRANCHES_BEFORE 3             /* from the WRMSR that starts the counter to the sequence */
#define COUNTERS 3ULL
#define FIXED_0 BIT(32)
#define ALL_KEPT (~0ULL)

static struct sequence now;
static uint64_t counted, instructions;

/* ---- the PMU ---- */

/* Counts in the sequence alone, and in the few instructions on both sides of it. */
void sequence_count(bool on)
{
    uint64_t mine = (now.pmi != 0 ? 1 : 0) | (now.cpl == 3 ? 2 : 0);

    if (mine != 0)
        wrmsr(IA32_PERF_GLOBAL_CTRL, (rdmsr(IA32_PERF_GLOBAL_CTRL) & FIXED_0) | (on ? mine : 0));
}

void sequence_pmi_acknowledge(void)
{
    if (now.pmi == 0)
        return;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, COUNTERS);
    apic_write_lvtpc(now.pmi_vector != 0 ? now.pmi_vector : LVT_NMI);
}

static void counters_setup(void)
{
    counted = instructions = 0;
    if (now.pmi == 0 && now.cpl != 3)
        return;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, COUNTERS);
    wrmsr(IA32_PERFEVTSEL0, now.pmi != 0 ? BRANCHES_ON : 0);
    wrmsr(IA32_PERFEVTSEL0 + 1, now.cpl == 3 ? INSTRUCTIONS_USER : 0);
    wrmsr(IA32_PMC0, (uint32_t)-(now.pmi + BRANCHES_BEFORE));
    wrmsr(IA32_PMC0 + 1, 0);
    apic_write_lvtpc(now.pmi_vector != 0 ? now.pmi_vector : LVT_NMI);
}

static void counters_read(void)
{
    if (now.pmi == 0 && now.cpl != 3)
        return;
    counted = now.pmi != 0 ? rdmsr(IA32_PMC0) : 0;
    instructions = now.exits || now.stacks_watched ? 0 : rdmsr(IA32_PMC0 + 1);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
}

/* ---- one sequence ---- */

static void drain(void)
{
    __asm__ volatile("mov %0, %%cr8\n\tsti\n\tnop\n\tnop\n\tcli" : : "r"(0ULL) : "memory");
}

static void mend(void)
{
    if (rdmsr(IA32_DEBUGCTL) != 0)
        wrmsr(IA32_DEBUGCTL, 0);
    write_cr3(read_cr3() & ~(CR3_PWT | CR3_PCD));
    write_xcr0(XCR0_FIRST);
    if (machine_pm1a_control() != 0 && now.exits)
        outw(machine_pm1a_control(), 1);
}

static uint64_t state_hash(uint64_t hash, bool whole)
{
    const struct fuzz_state *o = &fuzz_out;

    for (unsigned i = 0; i < sequence_event_count && i < SEQUENCE_EVENTS; i++)
        for (unsigned w = 0; w < sizeof(sequence_events[0]) / sizeof(uint64_t); w++)
            hash = hash_word(hash, ((const uint64_t *)&sequence_events[i])[w]);
    hash = hash_word(hash, sequence_event_count);
    hash = hash_word(hash, o->cr0);
    hash = hash_word(hash, o->cr4);
    hash = hash_word(hash, counted);
    hash = hash_word(hash, instructions);
    hash = hash_word(hash, rdmsr(IA32_DEBUGCTL));
    hash = hash_word(hash, rdmsr(SEQUENCE_TSC_AUX));
    hash = hash_word(hash, (uint32_t)read_xcr0());
    FOR_EACH_AROUND(a)
    hash = hash_word(hash, a->look());
    hash = sequence_shadow_hash(&now, hash);
    return sequence_memory_hash(hash, whole);
}

static uint64_t run(uint64_t hash, bool whole)
{
    sequence_world_reset(&now);
    if (now.pending != 0)
        apic_send(apic_id(), ICR_FIXED | ICR_ASSERT | now.pending);
    counters_setup();
    sequence_execute(&now);
    counters_read();
    drain();
    hash = state_hash(hash, whole);
    sequence_shadow_end(&now);
    mend();
    return hash;
}

/* ---- what is around the sequences of a STEP ---- */

static uint64_t step_begin(uint64_t hash, uint64_t seed, uint64_t number, bool verbose)
{
    FOR_EACH_AROUND(a)
    {
        uint64_t value = a->begin(seed, number);
        if (verbose)
            log_printf("sequence-before: number=%lu value=%lu\n", number, value);
        hash = hash_word(hash, hash_word(HASH_BASIS, value));
    }
    return hash;
}

static uint64_t step_end(uint64_t hash, uint64_t end, bool verbose)
{
    FOR_EACH_AROUND(a)
    {
        uint64_t value = a->end();
        if (verbose)
            log_printf("sequence-after: end=%lu value=0x%lx\n", end, value);
        hash = hash_word(hash, value);
    }
    return hash;
}

/* ---- what is printed ---- */

static void print_sequence(void)
{
    log_printf("sequence: number=%lu cpl=%u bits=%u data=0x%x hot=0x%x,0x%x dr7=0x%lx dr=0x%lx,"
               "0x%lx,0x%lx,0x%lx rflags=0x%lx action=%u pending=%u pmi=%u,%u cet=%d parts=",
               now.number, now.cpl, now.bits, now.data, now.hot[0], now.hot[1], now.dr7, now.dr[0],
               now.dr[1], now.dr[2], now.dr[3], now.rflags, (unsigned)now.action, now.pending,
               now.pmi, now.pmi_vector, now.cet);
    for (unsigned i = 0; i < SEQUENCE_PARTS; i++)
        log_printf("%s%s", i == 0 ? "" : ",", now.part[i] != NULL ? now.part[i] : "");
    log_printf(" table=");
    for (unsigned i = 0; i < SEQUENCE_DATA_PAGES; i++)
        log_printf("%s%lx", i == 0 ? "" : ",", now.table_flags[i]);
    log_printf(" code=");
    for (unsigned i = 0; i < now.count; i++) {
        unsigned end = i + 1 < now.count ? now.start[i + 1] : now.length;
        for (unsigned at = now.start[i]; at < end; at++)
            log_printf("%02x", now.code[at]);
        log_printf("%s", i + 1 < now.count ? "," : "");
    }
    log_printf("\n");
}

static void print_events(uint64_t hash)
{
    for (unsigned i = 0; i < sequence_event_count && i < SEQUENCE_EVENTS; i++) {
        const struct sequence_event *e = &sequence_events[i];
        log_printf("sequence-event: number=%lu vector=%lu error=0x%lx rip=0x%lx cs=0x%lx "
                   "rflags=0x%lx rsp=0x%lx registers=%08x dr6=0x%lx dr7=0x%lx cr0=0x%lx cr2=0x%lx "
                   "cr4=0x%lx\n",
                   now.number, e->vector, e->error, e->rip, e->cs, e->rflags, e->rsp,
                   (uint32_t)e->registers, e->dr6, e->dr7, e->cr0, e->cr2, e->cr4);
    }
    log_printf("sequence-end: number=%lu events=%u branches=0x%lx instructions=%lu memory=%08x "
               "hash=%08x\n",
               now.number, sequence_event_count, counted, instructions,
               (uint32_t)sequence_memory_hash(HASH_BASIS, false), (uint32_t)hash);
}

void test_sequence(const struct job *job)
{
    uint64_t seed = job->number[0], first = job->number[1], end = first + job->number[2];
    uint64_t variant = job->number[3], kept = job->number[4] != 0 ? job->number[4] : ALL_KEPT;
    uint64_t hash = HASH_BASIS, events = 0;
    bool verbose = job->word[0] == 'v', each = job->word[0] == 'e';

    fuzz_guest = under_pmuvisor();
    sequence_world_setup();
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0); /* after a reset the general counters are on */
    for (uint64_t i = first; i < end; i++) {
        bool last = each || (i + 1) % STEP == 0 || i + 1 == end, shown = verbose && i + STEP >= end;
        if (i % STEP == 0 || i == first)
            hash = step_begin(hash, seed, i, verbose);
        sequence_make(&now, seed, i, variant, kept);
        if (shown)
            print_sequence();
        uint64_t one = run(HASH_BASIS, (i + 1) % (STEP * WHOLE_STEPS) == 0);
        hash = hash_word(hash, one);
        events += sequence_event_count;
        if ((i + 1) % STEP == 0 || i + 1 == end)
            hash = step_end(hash, i + 1, verbose);
        if (shown)
            print_events(one);
        if (last) {
            log_printf("sequence-hash: seed=%lu end=%lu hash=%08x\n", seed, i + 1, (uint32_t)hash);
            hash = HASH_BASIS;
        }
    }
    sequence_world_end();
    log_printf("sequences: seed=%lu first=%lu count=%lu events=%lu\n", seed, first, end - first,
               events);
    tap_result(true, job->name, NULL);
}
