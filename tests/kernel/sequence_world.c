/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where sequences run: pages of data whose order in memory is not that of their addresses, the page
 * table that maps them, stacks of the handlers, all in one range of memory. And what each
 * event does: it is noted, what it broke is mended, and the sequence goes on.
 * SDM Vol. 3, "Debug Exceptions", "Interrupt and Exception Handling in 64-bit Mode", "Accessed and
 * Dirty Flags".
 */
#include "sequence.h"

#include <string.h>

#define PHYSICAL_PAGES 8 /* two of them have no address of a sequence */
#define HOT_BYTES 256u   /* of a page's beginning, and of its end */
#define STACKS 4
#define SHADOW_WORDS 64u      /* of one of CPL 0; its last is the token */
#define SHADOW_FRAME 3u       /* CS, LIP, SSP, from there downwards */
#define SHADOW_USER_WORD 256u /* where the user's begins */
#define SHADOW_SHOWN 8u
#define DR6_BREAKPOINTS 0xfULL
#define DR7_ENABLE(n) (3ULL << 2 * (n))
#define DR7_KIND(n) (0xfULL << (16 + 4 * (n)))
#define KERNEL_BIT BIT(63)
#define INT_DONE_BYTES 2
#define CR2_BEFORE 0x123000ULL
#define RFLAGS_STATUS (RFLAGS_CF | RFLAGS_PF | RFLAGS_AF | RFLAGS_ZF | RFLAGS_SF | RFLAGS_OF)
#define FILL 0x0101010101010101ULL

static struct area {
    uint8_t data[PHYSICAL_PAGES][PAGE_SIZE];
    uint64_t table[TABLE_ENTRIES];
    uint8_t stack[STACKS][PAGE_SIZE];
    uint64_t shadow[PAGE_SIZE / 8], shadow_user[PAGE_SIZE / 8]; /* in no range */
    uint64_t tokens[ISTS + 1];                                  /* IA32_INTERRUPT_SSP_TABLE_ADDR */
} area __attribute__((aligned(4096)));

/* Page n of the data: never the one behind page n - 1. */
static const uint8_t order[SEQUENCE_DATA_PAGES] = {2, 5, 0, 4, 1, 6};

static struct gate idt[VECTORS];
static const struct sequence *now;

struct sequence_event sequence_events[SEQUENCE_EVENTS];
volatile unsigned sequence_event_count;

/* ---- the pages ---- */

static unsigned index_of(uint32_t linear) { return linear / PAGE_SIZE % TABLE_ENTRIES; }

static void map(const struct sequence *s)
{
    for (unsigned i = 0; i < SEQUENCE_DATA_PAGES; i++) {
        uint64_t entry = fuzz_physical(area.data[order[i]]) | s->table_flags[i];
        area.table[index_of(SEQUENCE_DATA) + i] = entry;
        area.table[index_of(SEQUENCE_DATA_USER) + i] = entry | PTE_US;
    }
    area.table[index_of(SEQUENCE_TABLE)] = fuzz_physical(area.table) | PTE_P | PTE_RW | PTE_A |
                                           PTE_D;
    /* Read-only and dirty is what makes a shadow stack. */
    area.table[index_of(SEQUENCE_SHADOW)] = fuzz_physical(area.shadow) | PTE_P | PTE_A | PTE_D;
    area.table[index_of(SEQUENCE_SHADOW_USER)] = fuzz_physical(area.shadow_user) | PTE_P | PTE_US |
                                                 PTE_A | PTE_D;
    for (unsigned i = 0; i < SEQUENCE_DATA_PAGES; i++) {
        invlpg((const void *)(uintptr_t)(SEQUENCE_DATA + i * PAGE_SIZE));
        invlpg((const void *)(uintptr_t)(SEQUENCE_DATA_USER + i * PAGE_SIZE));
    }
}

/* ---- shadow stacks ---- */

/* The token of IST n; n 0: of the stack that CPL 0 begins with. */
static uint64_t token_of(unsigned n)
{
    return SEQUENCE_SHADOW + ((n + 1) * SHADOW_WORDS - 1) * sizeof(uint64_t);
}

static uint64_t *shadow_at(uint64_t linear)
{
    return &area.shadow[(linear - SEQUENCE_SHADOW) / sizeof(uint64_t)];
}

/* CPL 3 begins with both kinds on: an event's delivery marks its stack busy. At CPL 0 the sequence
 * itself switches them on. */
static void shadow_reset(const struct sequence *s)
{
    if (!s->cet)
        return;
    memset(area.shadow, 0, sizeof(area.shadow));
    memset(area.shadow_user, 0, sizeof(area.shadow_user));
    for (unsigned n = 0; n <= STACKS; n++)
        *shadow_at(token_of(n)) = area.tokens[n] = token_of(n);
    wrmsr(IA32_S_CET, s->cpl == 3 ? SH_STK_EN : 0);
    wrmsr(IA32_U_CET, s->cpl == 3 ? SH_STK_EN : 0);
    wrmsr(IA32_PL0_SSP, token_of(0));
    wrmsr(IA32_PL0_SSP + 3, SEQUENCE_SHADOW_USER + SHADOW_USER_WORD * sizeof(uint64_t));
    wrmsr(IA32_INTERRUPT_SSP_TABLE_ADDR, (uintptr_t)area.tokens);
}

uint64_t sequence_shadow_hash(const struct sequence *s, uint64_t hash)
{
    if (!s->cet)
        return hash;
    for (unsigned n = 0; n <= STACKS; n++)
        for (unsigned i = 0; i <= SHADOW_FRAME; i++)
            hash = hash_word(hash, *shadow_at(token_of(n) - i * sizeof(uint64_t)));
    for (unsigned i = 0; i < 2 * SHADOW_SHOWN; i++)
        hash = hash_word(hash, area.shadow_user[SHADOW_USER_WORD - SHADOW_SHOWN + i]);
    hash = hash_word(hash, rdmsr(IA32_S_CET));
    return hash_word(hash, rdmsr(IA32_PL0_SSP + 3));
}

void sequence_shadow_end(const struct sequence *s)
{
    if (!s->cet)
        return;
    wrmsr(IA32_S_CET, 0);
    wrmsr(IA32_U_CET, 0);
    wrmsr(IA32_INTERRUPT_SSP_TABLE_ADDR, 0);
}

/* Where the handler lets an interrupted CPL 0 go on: its shadow stack has to say so, too. */
static void move_shadow(const struct trap_frame *f, uint64_t rip_before)
{
    if (!now->cet || f->cs & 3 || !(rdmsr(IA32_S_CET) & SH_STK_EN))
        return;
    unsigned ist = idt[f->vector].ist;
    shadow_at(token_of(ist))[-2] += f->rip - rip_before;
}

void sequence_world_reset(const struct sequence *s)
{
    static bool whole = true; /* once */

    for (unsigned i = 0; i < PHYSICAL_PAGES; i++)
        for (unsigned at = 0; at < PAGE_SIZE; at += sizeof(uint64_t))
            if (whole || at < HOT_BYTES || at >= PAGE_SIZE - HOT_BYTES)
                *(uint64_t *)(area.data[i] + at) = FILL * (i + 1) + at;
            else
                at = PAGE_SIZE - HOT_BYTES - sizeof(uint64_t);
    whole = false;
    map(s);
    shadow_reset(s);
    memcpy(fuzz_code_page + SEQUENCE_CODE, s->code + SEQUENCE_CODE, s->length - SEQUENCE_CODE);
    memcpy(fuzz_code_page + SEQUENCE_POOL, s->far, sizeof(s->far));
    for (unsigned i = s->length; i < s->length + INT_DONE_BYTES * 8; i += INT_DONE_BYTES) {
        fuzz_code_page[i] = 0xcd;
        fuzz_code_page[i + 1] = FUZZ_DONE;
    }
    write_cr2(CR2_BEFORE);
}

uint64_t sequence_memory_hash(uint64_t hash, bool whole)
{
    for (unsigned i = 0; i < PHYSICAL_PAGES; i++)
        for (unsigned at = 0; at < PAGE_SIZE; at += sizeof(uint64_t)) {
            if (!whole && at == HOT_BYTES)
                at = PAGE_SIZE - HOT_BYTES;
            hash = hash_word(hash, *(uint64_t *)(area.data[i] + at));
        }
    for (unsigned i = 0; i < SEQUENCE_DATA_PAGES; i++) {
        hash = hash_word(hash, area.table[index_of(SEQUENCE_DATA) + i] & BITS(11, 0));
        hash = hash_word(hash, area.table[index_of(SEQUENCE_DATA_USER) + i] & BITS(11, 0));
    }
    return hash;
}

void sequence_range(enum sequence_range n, uint64_t *first, uint64_t *bytes)
{
    *first = fuzz_physical(&area);
    *bytes = sizeof(area.data);
    if (n == RANGE_TABLE)
        *bytes = offsetof(struct area, stack);
    else if (n == RANGE_STACKS)
        *bytes = offsetof(struct area, shadow);
}

void sequence_world_setup(void)
{
    uint64_t *directory = fuzz_directory();

    fuzz_setup();
    directory[SEQUENCE_DATA / SIZE_2M] = fuzz_physical(area.table) | PTE_P | PTE_RW | PTE_US |
                                         PTE_A;
    write_cr3(read_cr3());
    memcpy(idt, (const void *)fuzz_own_idt.base, sizeof(idt));
    for (unsigned v = 0; v < VECTORS; v++) {
        uint8_t type = idt[v].type;
        idt[v] = cpu_gate_to(sequence_stubs + v * STUB_BYTES, idt[v].ist);
        idt[v].type = type;
    }
    fuzz_own_idt.base = (uintptr_t)idt;
    __asm__ volatile("lidt %0" : : "m"(fuzz_own_idt));
    for (unsigned i = 0; i < STACKS; i++)
        fuzz_spoil_ist(i + 1, (uintptr_t)area.stack[i] + PAGE_SIZE);
    _Static_assert(IST_OF_DF == STACKS, "each has one");
}

void sequence_world_end(void)
{
    (fuzz_directory())[SEQUENCE_DATA / SIZE_2M] = 0;
    fuzz_end();
}

/* ---- events ---- */

/* Where in the code page; PAGE_SIZE: elsewhere. */
static unsigned place(const struct trap_frame *f)
{
    uint64_t page = f->rip / PAGE_SIZE * PAGE_SIZE;
    bool low = (f->cs & ~3ULL) == FUZZ_CODE16_0 || (f->cs & ~3ULL) == FUZZ_CODE16_3;

    if (low ? page <= PAGE_SIZE : page == WINDOW_CODE || page == WINDOW_CODE_USER)
        return (unsigned)(f->rip % PAGE_SIZE);
    return PAGE_SIZE;
}

static uint64_t mix_registers(const struct trap_frame *f)
{
    /* As `ignored` has them. */
    const uint64_t gpr[] = {f->rax, f->rcx, f->rdx, f->rbx, f->rsp, f->rbp, f->rsi, f->rdi,
                            f->r8,  f->r9,  f->r10, f->r11, f->r12, f->r13, f->r14, f->r15};
    bool long_mode = (f->cs & ~3ULL) == FUZZ_CODE_0 || (f->cs & ~3ULL) == FUZZ_CODE_3;
    uint64_t mixed = 0;

    for (unsigned i = 0; i < (long_mode ? 16 : 8); i++)
        if (!(now->ignored & BIT(i)))
            mixed = hash_word(mixed, long_mode ? gpr[i] : (uint32_t)gpr[i]);
    return mixed;
}

static bool is_fault(uint64_t vector)
{
    return vector < EXCEPTIONS && vector != VECTOR_DB && vector != VECTOR_NMI &&
           vector != VECTOR_BP && vector != VECTOR_BP + 1;
}

/* On at the next instruction. False: there is none, or this one must not be left out. */
static bool step_over(struct trap_frame *f, unsigned at)
{
    for (unsigned i = 0; i < now->count; i++) {
        unsigned next = i + 1 < now->count ? now->start[i + 1] : now->length;
        if (at < now->start[i] || at >= next)
            continue;
        f->rip += next - at;
        f->rflags &= ~(uint64_t)RFLAGS_RF;
        return !now->ends[i];
    }
    return false;
}

/* A breakpoint of the instruction that comes next has RF set, or it would come for ever. */
static bool is_of_instruction(uint64_t dr6_now, uint64_t dr7_now)
{
    for (unsigned n = 0; n < 4; n++)
        if (dr6_now & BIT(n) && dr7_now & DR7_ENABLE(n) && !(dr7_now & DR7_KIND(n)))
            return true;
    return false;
}

static void act(void)
{
    if (now->action == HANDLER_CPUID)
        (void)cpuid(0, 0);
    else if (now->action == HANDLER_CR3)
        write_cr3(read_cr3() ^ CR3_PCD);
}

static bool handle(struct trap_frame *f)
{
    unsigned n = __atomic_fetch_add(&sequence_event_count, 1, __ATOMIC_RELAXED);
    uint64_t dr6_now = read_dr6(), dr7_now = read_dr7();
    bool ours = !(f->rip & KERNEL_BIT) || f->cs & 3;
    unsigned at = place(f);

    if (f->vector == VECTOR_NMI)
        f->rflags &= ~(uint64_t)RFLAGS_RF; /* the emulator sets it in what an NMI's exit saves */
    if (n < SEQUENCE_EVENTS)
        sequence_events[n] = (struct sequence_event){
            f->vector, f->error_code, f->rip, f->cs | f->ss << 16,
            /* The kernel's own flags are what it looked at last: what an experiment does around it.
             */
            ours ? f->rflags : f->rflags & ~(uint64_t)RFLAGS_STATUS, f->rsp,
            ours ? mix_registers(f) : 0, dr6_now, dr7_now, read_cr0(), read_cr2(), read_cr4()};
    write_dr6(DR6_NONE);
    if (f->vector >= SEQUENCE_IPI_FIRST)
        apic_eoi();
    else if (f->vector == VECTOR_NMI)
        sequence_pmi_acknowledge();
    if (!ours)
        return f->vector == VECTOR_NMI || f->vector == VECTOR_DB || f->vector >= SEQUENCE_IPI_FIRST;
    act();
    if (f->vector == FUZZ_DONE || n >= SEQUENCE_EVENTS || at == PAGE_SIZE)
        return false;
    if (f->vector == VECTOR_DB && is_of_instruction(dr6_now & DR6_BREAKPOINTS, dr7_now))
        f->rflags |= RFLAGS_RF;
    for (unsigned i = 0; i < now->count; i++)
        if (now->halts[i] && now->start[i] == at)
            f->rip++; /* what it would wait for may be this */
    return !is_fault(f->vector) || step_over(f, at);
}

bool sequence_event(struct trap_frame *f)
{
    sequence_count(false);
    uint64_t rip = f->rip;
    bool goes_on = handle(f);
    move_shadow(f, rip);
    if (goes_on && (!(f->rip & KERNEL_BIT) || f->cs & 3))
        sequence_count(true);
    return goes_on;
}

void sequence_execute(const struct sequence *s)
{
    static const uint8_t code[] = {FUZZ_CODE_0, FUZZ_CODE_3}, data[] = {FUZZ_DATA_0, FUZZ_DATA_3};
    static const uint32_t mxcsr_reset = 0x1f80; /* SDM Vol. 1, "SIMD Floating-Point MXCSR" */
    bool user = s->cpl == 3;

    now = s;
    sequence_event_count = 0;
    for (unsigned i = 0; i < 16; i++)
        fuzz_in.gpr[i] = (s->number + i) * FILL;
    fuzz_in.gpr[RDI] = s->hot[0];
    fuzz_in.gpr[RSI] = s->hot[1];
    fuzz_in.gpr[RCX] = 3;
    fuzz_in.rip = sequence_first(s);
    fuzz_in.cs = s->bits == 64 ? code[user] | s->cpl : sequence_code_selector(s, s->bits);
    fuzz_in.ss = data[user] | s->cpl;
    fuzz_in.rsp = s->data + SEQUENCE_STACK;
    fuzz_in.rflags = s->rflags;
    fuzz_in.cr4 = s->cet ? fuzz_base.cr4 | CR4_CET : 0;
    fuzz_in.cr0 = s->cet && s->cpl == 3;
    __asm__ volatile("mov %0, %%dr0\n\tmov %1, %%dr1\n\tmov %2, %%dr2\n\tmov %3, %%dr3"
                     :
                     : "r"(s->dr[0]), "r"(s->dr[1]), "r"(s->dr[2]), "r"(s->dr[3]));
    __asm__ volatile("mov %0, %%dr6\n\tmov %1, %%dr7" : : "r"(DR6_NONE), "r"(s->dr7));
    __asm__ volatile("fninit\n\tldmxcsr %0\n\txorps %%xmm0, %%xmm0" : : "m"(mxcsr_reset));
    sequence_count(true);
    fuzz_execute();
    fuzz_in.cr4 = fuzz_in.cr0 = 0;
}
