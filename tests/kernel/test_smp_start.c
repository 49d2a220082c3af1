/* SPDX-License-Identifier: BSD-2-Clause
 *
 * INIT and SIPI: what state a processor starts in, that it starts from everything it may be doing,
 * where the vector says, and that a SIPI to a running processor does nothing.
 * SDM Vol. 3, "Processor State After Reset", "Issuing IPIs"; "Local APIC State After It Receives an
 * INIT Reset".
 */
#include "smp.h"

#include <string.h>

#include "console/log.h"
#include "fuzz.h"

#define DEEP 0x20 /* MWAIT's hint for C3 */
#define ROUNDS 10
#define IA32_FS_BASE 0xc0000100
#define IA32_KERNEL_GS_BASE 0xc0000102
#define IA32_TSC_AUX 0xc0000103
#define APIC_VECTOR_FIRST 0x20
#define PATTERN 0x5aa5
#define IA32_UMWAIT_CONTROL 0x0e1
#define IA32_SYSENTER_CS 0x174
#define IA32_THERM_INTERRUPT 0x19b
#define IA32_PKRS 0x6e1
#define IA32_CSTAR 0xc0000083
#define CET_PATTERN 3                                  /* SH_STK_EN, WR_SHSTK_EN */
#define TRACING (RTIT_CTL_TRACE_EN | BIT(2) | BIT(13)) /* OS, BranchEn */
#define PATTERN_ADDRESS 0xffff800012345000ULL
#define FCW_DOUBLE 0x027f /* not what FINIT gives */
#define LINGER 2000
#define MARK 0x800 /* in the page of the start code */

static const uint16_t apic_offsets[] = {
    APIC_ID,
    0x030,
    APIC_TPR,
    0x0d0,
    APIC_SVR,
    0x100,
    0x200,
    0x280,
    APIC_LVT_TIMER,
    0x330,
    APIC_LVT_PMI,
    APIC_LVT_LINT0,
    0x360,
    APIC_LVT_ERROR,
    APIC_TIMER_INITIAL,
    APIC_TIMER_DIVIDE,
};

static uint32_t apic_kept[KERNEL_PROCESSORS][LENGTH_OF(apic_offsets)];

void smp_keep_apic(const struct processor *self)
{
    for (unsigned i = 0; i < LENGTH_OF(apic_offsets); i++)
        apic_kept[self->number][i] = apic_read(apic_offsets[i]);
}

void test_smp_processors(const struct job *job)
{
    unsigned there = 0;

    for (unsigned i = 0; i < processor_count; i++) {
        there += processors[i].there;
        log_printf("processor: number=%u apic_id=%u starts=%lu\n", i, processors[i].apic_id,
                   processors[i].starts);
    }
    tap_result(there == processor_count, job->name, NULL);
}

static bool x2_reached;

static void enter_x2(struct processor *self)
{
    if (!apic_enter_x2() || apic_id() != self->apic_id)
        x2_reached = false;
}

void test_smp_x2apic(const struct job *job)
{
    x2_reached = true;
    smp_run_all(enter_x2);
    tap_result(x2_reached, job->name, NULL);
}

/* Everything that INIT changes, and some that it does not, gets a value of its own. */
static void spoil(struct processor *self)
{
    uint16_t fcw = FCW_DOUBLE;

    apic_write(APIC_TPR, 0x20);
    apic_write(APIC_LVT_LINT0, APIC_VECTOR_FIRST + 1);
    apic_write(APIC_LVT_ERROR, APIC_VECTOR_FIRST + 2);
    apic_write(APIC_TIMER_DIVIDE, 3);
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_FS_BASE, PATTERN_ADDRESS);
    wrmsr(IA32_KERNEL_GS_BASE, PATTERN_ADDRESS + 1);
    wrmsr(IA32_TSC_AUX, PATTERN);
    wrmsr(IA32_SYSENTER_EIP, PATTERN_ADDRESS + 2);
    wrmsr(IA32_FIXED_CTR_CTRL, 1);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
    write_cr2(PATTERN_ADDRESS);
    __asm__ volatile("mov %0, %%dr0\n\tmov %0, %%dr1\n\tmov %0, %%dr2\n\tmov %0, %%dr3\n\t"
                     "mov %1, %%dr6"
                     :
                     : "r"(PATTERN_ADDRESS), "r"(0xffff4ff0ULL));
    __asm__ volatile("fninit\n\tfld1\n\tfldcw %0" : : "m"(fcw));
    for (;;)
        self->alive++;
}

/* One of each group of MSRs, with a value that natively is taken. IA32_RTIT_CTL comes after what it
 * uses: from there on the processor is traced. */
static struct {
    uint32_t index;
    uint64_t spoilt, after;
    bool there;
} init_msrs[] = {
    {IA32_SPEC_CTRL, 2, 0, false},
    {IA32_UMWAIT_CONTROL, 0x5000, 0, false},
    {IA32_SYSENTER_CS, 0x5a5a, 0, false},
    {IA32_PERFEVTSEL0, 0xc0, 0, false},
    {IA32_THERM_INTERRUPT, 2, 0, false},
    {MSR_LBR_SELECT, 1, 0, false},
    {IA32_DEBUGCTL, DEBUGCTL_BTF, 0, false},
    {IA32_PAT, 0x0007050600070406ULL, 0, false},
    {IA32_FIXED_CTR0, 0x1234, 0, false},
    {IA32_DS_AREA, PATTERN_ADDRESS, 0, false},
    {IA32_U_CET, CET_PATTERN, 0, false},
    {IA32_S_CET, CET_PATTERN, 0, false},
    {IA32_PL0_SSP, PATTERN_ADDRESS + 8, 0, false},
    {IA32_PL0_SSP + 1, PATTERN_ADDRESS + 16, 0, false},
    {IA32_PL0_SSP + 2, PATTERN_ADDRESS + 24, 0, false},
    {IA32_PL0_SSP + 3, PATTERN_ADDRESS + 32, 0, false},
    {IA32_INTERRUPT_SSP_TABLE_ADDR, PATTERN_ADDRESS + 40, 0, false},
    {IA32_PKRS, 0x50, 0, false},
    {IA32_XSS, XSS_CET, 0, false},
    {IA32_LBR_CTL, 1 << 16, 0, false},
    {IA32_STAR, 0x0013000800000000ULL, 0, false},
    {IA32_LSTAR, PATTERN_ADDRESS, 0, false},
    {IA32_CSTAR, PATTERN_ADDRESS, 0, false},
    {IA32_FMASK, 0x40700, 0, false},
    {IA32_RTIT_OUTPUT_BASE, 0, 0, false},
    {IA32_RTIT_OUTPUT_BASE + 1, PAGE_SIZE - 1, 0, false},
    {IA32_RTIT_CR3_MATCH, PAGE_SIZE, 0, false},
    {IA32_RTIT_CTL, TRACING, 0, false},
};

static uint8_t trace_page[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

static void spoil_msrs(struct processor *self)
{
    for (unsigned i = 0; i < LENGTH_OF(init_msrs); i++) {
        init_msrs[i].there = smp_rdmsr_try(init_msrs[i].index, &init_msrs[i].after);
        if (init_msrs[i].there)
            wrmsr(init_msrs[i].index, init_msrs[i].spoilt);
    }
    for (;;)
        self->alive++;
}

static void keep_msrs(struct processor *self)
{
    (void)self;
    for (unsigned i = LENGTH_OF(init_msrs); i-- > 0;)
        if (init_msrs[i].there) {
            init_msrs[i].after = rdmsr(init_msrs[i].index);
            wrmsr(init_msrs[i].index, 0);
        }
    wrmsr(IA32_PAT, PAT_RESET);
}

/* `smp-init-msrs`: prints what an INIT has made of MSRs, where the processor has them. */
void test_smp_init_msrs(const struct job *job)
{
    bool up = true;

    wrmsr(IA32_LSTAR, rdmsr(IA32_LSTAR)); /* from here on the emulator's unknown MSRs fault */
    for (unsigned n = 0; n < LENGTH_OF(init_msrs); n++)
        if (init_msrs[n].index == IA32_RTIT_OUTPUT_BASE)
            init_msrs[n].spoilt = fuzz_physical(trace_page);
        else if (init_msrs[n].index == IA32_XSS)
            init_msrs[n].spoilt = cpuid(CPUID_LEAF_XSAVE, 1).ecx & XSS_CET;
    for (unsigned i = 1; i < processor_count; i++) {
        struct processor *p = &processors[i];
        uint64_t alive = p->alive;
        smp_leave_with(p, spoil_msrs);
        while (p->alive < alive + LINGER)
            __asm__ volatile("pause");
        up = smp_restart(p, smp_page(0)) && up;
        smp_run_on(p, keep_msrs);
        for (unsigned n = 0; n < LENGTH_OF(init_msrs); n++)
            if (init_msrs[n].there)
                log_printf("init: cpu=%u msr=0x%x spoilt=0x%lx after=0x%lx\n", i,
                           init_msrs[n].index, init_msrs[n].spoilt, init_msrs[n].after);
    }
    tap_result(up, job->name, NULL);
}

static void say_state(const struct job *job, const struct processor *p, uint64_t page)
{
    struct start_state s;

    memcpy(&s, (const void *)(page + (uint64_t)(start_state - start_code)), sizeof(s));
    log_printf("state: name=%s cpu=%u eax=0x%x ecx=0x%x edx=0x%x ebx=0x%x esp=0x%x ebp=0x%x "
               "esi=0x%x edi=0x%x eflags=0x%x\n",
               job->name, p->number, s.eax, s.ecx, s.edx, s.ebx, s.esp, s.ebp, s.esi, s.edi,
               s.eflags);
    log_printf("state: name=%s cpu=%u page=0x%lx cs=0x%x ds=0x%x es=0x%x ss=0x%x fs=0x%x gs=0x%x "
               "gdt=0x%x,0x%x idt=0x%x,0x%x\n",
               job->name, p->number, page, s.cs, s.ds, s.es, s.ss, s.fs, s.gs, s.gdt_base,
               s.gdt_limit, s.idt_base, s.idt_limit);
    log_printf("state: name=%s cpu=%u cr0=0x%x cr2=0x%x cr3=0x%x cr4=0x%x dr0=0x%x dr1=0x%x "
               "dr2=0x%x dr3=0x%x dr6=0x%x dr7=0x%x fcw=0x%x fsw=0x%x\n",
               job->name, p->number, s.cr0, s.cr2, s.cr3, s.cr4, s.dr0, s.dr1, s.dr2, s.dr3, s.dr6,
               s.dr7, s.fcw, s.fsw);
    for (unsigned i = 0; i < START_MSRS; i++)
        log_printf("state: name=%s cpu=%u msr_%x=0x%lx\n", job->name, p->number, s.msr[i].index,
                   s.msr[i].value);
    for (unsigned i = 0; i < LENGTH_OF(apic_offsets); i++)
        log_printf("state: name=%s cpu=%u apic_%x=0x%x\n", job->name, p->number, apic_offsets[i],
                   apic_kept[p->number][i]);
}

/* `smp-state`, `smp-state:NAME`: prints the state that each started in, for the comparison with
 * another boot; by itself it finds only that they all came up again. */
void test_smp_state(const struct job *job)
{
    uint64_t page = smp_page(0);
    bool up = true;

    for (unsigned i = 1; i < processor_count; i++) {
        uint64_t alive = processors[i].alive;
        smp_leave_with(&processors[i], spoil);
        while (processors[i].alive < alive + LINGER)
            __asm__ volatile("pause");
        up = smp_restart(&processors[i], page) && up;
        say_state(job, &processors[i], page);
    }
    tap_result(up, job->name, up ? NULL : "not every processor came up again");
}

static void halt(struct processor *self)
{
    for (;;) {
        self->alive++;
        __asm__ volatile("cli\n\thlt");
    }
}

/* As Linux does with a processor that is unplugged (mwait_play_dead()). */
static void sleep_for_good(struct processor *self)
{
    static uint64_t line[8] __attribute__((aligned(LINE)));

    __asm__ volatile("cli\n\twbinvd");
    for (;;) {
        self->alive++;
        __asm__ volatile("monitor" : : "a"(line), "c"(0), "d"(0));
        __asm__ volatile("mwait" : : "a"(DEEP), "c"(0));
    }
}

static void exit_on_and_on(struct processor *self)
{
    for (;;) {
        self->alive++;
        (void)cpuid(0, 0);
    }
}

/* Inside the NMI handler: NMIs are blocked when the INIT comes, and are not any more behind it. */
static void spin_in_handler(struct processor *self)
{
    self->on_nmi = NULL;
    smp_spin(self);
}

static void handle_forever(struct processor *self)
{
    self->on_nmi = spin_in_handler;
    apic_send(self->apic_id, ICR_NMI | ICR_ASSERT);
    for (;;)
        __asm__ volatile("pause");
}

static processor_work work_named(const char *word)
{
    static const struct {
        const char *name;
        processor_work work;
    } works[] = {{"running", smp_spin},
                 {"halted", halt},
                 {"asleep", sleep_for_good},
                 {"exiting", exit_on_and_on},
                 {"handler", handle_forever}};

    for (unsigned i = 0; i < LENGTH_OF(works); i++)
        if (text_equal(works[i].name, word))
            return works[i].work;
    return NULL;
}

static bool let_run(struct processor *p, processor_work work)
{
    uint64_t alive = p->alive;

    smp_leave_with(p, work);
    for (unsigned i = 0; i < LINGER && p->alive == alive; i++)
        __asm__ volatile("pause");
    return p->alive != alive;
}

/* `smp-init:WORK:ROUNDS`: from that work each is started again, by turns at either of two pages,
 * once by each INIT and two SIPIs, and then does what it is told. */
void test_smp_init(const struct job *job)
{
    processor_work work = work_named(job->word);
    uint64_t rounds = job->number[0] != 0 ? job->number[0] : ROUNDS, wrong = 0;

    if (work == NULL) {
        tap_result(false, job->name, "wanted running, halted, asleep, exiting or handler");
        return;
    }
    for (uint64_t round = 0; round < rounds && wrong == 0; round++) {
        uint64_t page = smp_page(round % 2);
        uint16_t cs = 0;
        for (unsigned i = 1; i < processor_count; i++) {
            struct processor *p = &processors[i];
            /* The moment of the INIT is another one each time. */
            bool ran = let_run(p, work);
            for (uint64_t n = 0; n < round * 7 % 97; n++)
                __asm__ volatile("nop");
            bool up = smp_restart(p, page);
            memcpy(&cs,
                   (const void *)(page + (uint64_t)(start_state - start_code) +
                                  offsetof(struct start_state, cs)),
                   sizeof(cs));
            if (ran && up && cs == page >> 4) {
                smp_run_on(p, smp_nothing);
                continue;
            }
            wrong++;
            tap_note("processor %u, round %lu: ran %d, up %d (%lu starts), CS 0x%x, wanted 0x%lx",
                     i, round, ran, up, p->starts, cs, page >> 4);
        }
    }
    tap_result(wrong == 0, job->name, NULL);
}

/* `smp-init-loop:ROUNDS`: started where its first instruction, at CS:0 in real mode, is a jump to
 * itself, each is started again all the same. */
void test_smp_init_loop(const struct job *job)
{
    static const uint8_t loop[] = {0xeb, 0xfe};
    uint64_t wrong = 0, page = smp_page(1);

    for (uint64_t round = 0; round < job->number[0] && wrong == 0; round++) {
        for (unsigned i = 1; i < processor_count; i++) {
            struct processor *p = &processors[i];
            smp_prepare(p, page);
            memcpy((void *)page, loop, sizeof(loop));
            smp_start_all(p, 1);
            smp_delay(LINGER);
            bool loops = p->starts == p->starts_wanted - 1;
            bool up = smp_restart(p, smp_page(0));
            if (up)
                smp_run_on(p, smp_nothing);
            wrong += !loops || !up;
        }
    }
    tap_result(wrong == 0 && job->number[0] != 0, job->name, NULL);
}

/* `smp-parallel:ROUNDS`: all others start at once, as Linux does it where it can, each in a page of
 * its own: INITs to all, then SIPIs to all, twice. */
void test_smp_parallel(const struct job *job)
{
    uint64_t wrong = 0;

    for (uint64_t round = 0; round < job->number[0] && wrong == 0; round++) {
        for (unsigned i = 1; i < processor_count; i++)
            wrong += !let_run(&processors[i], round % 2 != 0 ? exit_on_and_on : halt);
        for (unsigned i = 1; i < processor_count; i++)
            smp_prepare(&processors[i], smp_page(i));
        smp_start_all(&processors[1], processor_count - 1);
        for (unsigned i = 1; i < processor_count; i++) {
            wrong += !smp_came_up(&processors[i]);
            if (wrong == 0)
                smp_run_on(&processors[i], smp_nothing);
        }
    }
    tap_result(wrong == 0 && job->number[0] != 0, job->name, NULL);
}

/* `smp-broadcast:SIPIS:ROUNDS`: all others start at once in one page, by one INIT to all of them
 * and so many SIPIs, as firmware does it; each comes up, and once. */
void test_smp_broadcast(const struct job *job)
{
    static const processor_work works[] = {halt, exit_on_and_on, smp_spin, handle_forever};
    uint64_t wrong = 0, up = 0;

    for (uint64_t round = 0; round < job->number[1] && wrong == 0; round++) {
        uint64_t page = smp_page(round % 2);
        for (unsigned i = 1; i < processor_count; i++)
            wrong += !let_run(&processors[i], works[round % LENGTH_OF(works)]);
        for (unsigned i = 1; i < processor_count; i++)
            smp_prepare(&processors[i], page);
        smp_start_broadcast(page, (unsigned)job->number[0]);
        for (unsigned i = 1; i < processor_count; i++)
            up += smp_came_up(&processors[i]);
        smp_delay(LINGER);
        for (unsigned i = 1; i < processor_count; i++) {
            if (processors[i].starts == processors[i].starts_wanted) {
                smp_run_on(&processors[i], smp_nothing);
                continue;
            }
            wrong++;
            tap_note("processor %u, round %lu: %lu starts, wanted %lu", i, round,
                     processors[i].starts, processors[i].starts_wanted);
        }
    }
    log_printf("broadcast: name=%s up=%lu of=%lu\n", job->name, up,
               job->number[1] * (processor_count - 1));
    tap_result(wrong == 0 && up != 0, job->name, NULL);
}

/* A SIPI without an INIT before it is dropped. */
void test_smp_sipi(const struct job *job)
{
    uint64_t wrong = 0, page = smp_page(1);

    for (unsigned i = 1; i < processor_count; i++) {
        struct processor *p = &processors[i];
        uint64_t starts = p->starts;
        bool ran = let_run(p, smp_spin);
        smp_sipi(p, page);
        smp_delay(LINGER);
        uint64_t alive = p->alive;
        smp_delay(LINGER);
        wrong += !ran || p->starts != starts || p->alive == alive;
        wrong += !smp_restart(p, smp_page(0));
    }
    tap_result(wrong == 0, job->name, NULL);
}

/* `smp-hidden:RUNS`: INIT, SIPIs and an NMI to all others, whom the MADT need not list. Their code,
 * in 16-bit mode, sets a mark in its page and halts for good. RUNS is 1 where it must run. */
void test_smp_hidden(const struct job *job)
{
    static const uint8_t code[] = {0x2e,      0xc6, 0x06, MARK & 0xff,
                                   MARK >> 8, 1,                 /* mov byte [cs:MARK], 1 */
                                   0xfa,      0xf4, 0xeb, 0xfc}; /* again: cli; hlt; jmp again */
    uint64_t page = smp_page(1), ran = 0;
    volatile uint8_t *mark = (volatile uint8_t *)(page + MARK);

    memcpy((void *)page, code, sizeof(code));
    for (unsigned round = 0; round < 3; round++) {
        *mark = 0;
        smp_start_broadcast(page, 2);
        smp_delay(LINGER);
        ran += *mark;
        if (!*mark) { /* there is no IDT for that code */
            apic_send_others(ICR_NMI | ICR_ASSERT);
            smp_delay(LINGER);
        }
    }
    log_printf("hidden: ran=%lu\n", ran);
    tap_result((ran != 0) == (job->number[0] != 0), job->name, NULL);
}
