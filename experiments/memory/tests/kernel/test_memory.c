/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=: each kind of instruction that writes leaves the record that it has to. The work is in
 * assembly, so that there is no access but its own. SDM Vol. 2, the instructions' pages.
 */
#include <string.h>

#include "memory.h"

#include "hypercall.h"
#include "msr.h"
#include "x86.h"

#define MARK 0x1122334455667788ULL
#define REPEATS 3
#define HASH 0x100000001b3ULL
#define INSTRUCTIONS 0x4200c0ULL /* at CPL 0, counting */
#define BRANCHES 0x4200c4ULL

static uint8_t *const area = memory_area;

struct work {
    const char *name;
    void (*run)(void);
    struct memory_wanted wanted[REPEATS * 2];
    unsigned count;
};

#define WRITE TRACE_WRITE
#define LOW(bytes) (~0ULL >> (64 - 8 * (bytes)))
#define STORE(name, text)                                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        __asm__ volatile(text                                                                      \
                         :                                                                         \
                         : "D"(memory_area), "a"(MARK)                                             \
                         : "memory", "cc", "rcx", "rdx", "rsi", "r8", "rbx");                      \
    }
STORE(nothing, "mov %%rax, %%rcx")
STORE(store_1, "movb %%al, 64(%%rdi)")
STORE(store_2, "movw %%ax, 64(%%rdi)")
STORE(store_4, "movl %%eax, 64(%%rdi)")
STORE(store_8, "movq %%rax, 64(%%rdi)")
STORE(store_twice, "movq %%rax, 64(%%rdi)\n\tmovq %%rax, 4096+72(%%rdi)")
STORE(over_pages, "movq %%rax, 4092(%%rdi)")
STORE(push, "mov %%rsp, %%rcx\n\tlea 128(%%rdi), %%rsp\n\tpush %%rax\n\tmov %%rcx, %%rsp")
STORE(call, "mov %%rsp, %%rcx\n\tlea 128(%%rdi), %%rsp\n\tcall 1f\n1:\tmov %%rcx, %%rsp")
STORE(locked, "movq $1, %%rcx\n\tlock xaddq %%rcx, 64(%%rdi)")
STORE(exchange, "xchgq %%rax, 64(%%rdi)")
STORE(move, "lea 5000(%%rdi), %%rsi\n\tadd $64, %%rdi\n\tmovsq")
STORE(rep_store, "add $4032, %%rdi\n\tmov $10, %%ecx\n\trep stosq")
STORE(rep_move, "lea 8192(%%rdi), %%rsi\n\tadd $64, %%rdi\n\tmov $100, %%ecx\n\trep movsb")
STORE(rep_back, "add $64, %%rdi\n\tmov $2, %%ecx\n\tstd\n\trep stosq\n\tcld")
STORE(rep_none, "xor %%ecx, %%ecx\n\trep stosq")
STORE(behind_sti, "sti\n\tmovq %%rax, 64(%%rdi)\n\tcli")
STORE(behind_mov_ss, "mov %%ss, %%ecx\n\tmov %%ecx, %%ss\n\tmovq %%rax, 64(%%rdi)")
STORE(save, "fxsave 512(%%rdi)")
STORE(save_16, "fxsave 528(%%rdi)")
STORE(compare_8, "mov %%rax, %%r8\n\tmov 64(%%rdi), %%eax\n\tmov 68(%%rdi), %%edx\n\t"
                 "mov %%r8d, %%ebx\n\tmov %%r8, %%rcx\n\tshr $32, %%rcx\n\t"
                 "lock cmpxchg8b 64(%%rdi)")
STORE(compare_16, "mov %%rax, %%rbx\n\tmov 64(%%rdi), %%rax\n\tmov 72(%%rdi), %%rdx\n\t"
                  "mov %%rbx, %%rcx\n\tlock cmpxchg16b 64(%%rdi)")
STORE(enter, "mov %%rsp, %%rcx\n\tmov %%rbp, %%rdx\n\tmov %%rax, %%rbp\n\tlea 128(%%rdi), %%rsp\n\t"
             "enter $0, $0\n\tmov %%rcx, %%rsp\n\tmov %%rdx, %%rbp")
STORE(store_16, "movq %%rax, %%xmm0\n\tpunpcklqdq %%xmm0, %%xmm0\n\tmovups %%xmm0, 64(%%rdi)")
STORE(store_32, "movq %%rax, %%xmm0\n\tpunpcklqdq %%xmm0, %%xmm0\n\t"
                "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\tvmovups %%ymm0, 64(%%rdi)\n\tvzeroupper")
STORE(masked, "pcmpeqd %%xmm1, %%xmm1\n\tmovq %%rax, %%xmm0\n\tadd $64, %%rdi\n\t"
              "maskmovdqu %%xmm1, %%xmm0")
STORE(increment, "incq 64(%%rdi)")
STORE(bits, "btsq $5, 64(%%rdi)")
STORE(flags, "mov %%rsp, %%rcx\n\tlea 128(%%rdi), %%rsp\n\tpushfq\n\tmov %%rcx, %%rsp")
STORE(table, "sgdt 64(%%rdi)")
STORE(segment, "movw %%ss, 64(%%rdi)")
STORE(not_temporal, "movntiq %%rax, 64(%%rdi)")
STORE(save_x, "mov $3, %%eax\n\txor %%edx, %%edx\n\tpxor %%xmm0, %%xmm0\n\txsave64 512(%%rdi)")
STORE(save_c, "mov $3, %%eax\n\txor %%edx, %%edx\n\tpcmpeqd %%xmm1, %%xmm1\n\txsavec64 512(%%rdi)")
STORE(save_s, "mov $3, %%eax\n\txor %%edx, %%edx\n\tpcmpeqd %%xmm1, %%xmm1\n\txsaves64 512(%%rdi)")
STORE(move_up, "lea 64(%%rdi), %%rsi\n\tadd $65, %%rdi\n\tmov $100, %%ecx\n\trep movsb")
STORE(move_down, "lea 163(%%rdi), %%rsi\n\tadd $164, %%rdi\n\tmov $3, %%ecx\n\tstd\n\t"
                 "rep movsb\n\tcld")
STORE(move_pages, "lea 8200(%%rdi), %%rsi\n\tadd $4080, %%rdi\n\tmov $4, %%ecx\n\trep movsq")
STORE(odd, "add $4093, %%rdi\n\tmov $3, %%ecx\n\trep stosq")
STORE(last_byte, "movb %%al, 4095(%%rdi)")

/* Records that are wanted, `at` bytes into the area: of the mark's low bytes, of any value, of a
 * REP's iterations at once, of the XSAVE family. */
#define MARKED(at, bytes) {memory_area + (at), WRITE, 0, MARK, LOW(bytes)}
#define WRITTEN(at) {memory_area + (at), WRITE, 0, 0, 0}
#define MARKED_CHUNK(at, bytes) {memory_area + (at), WRITE | TRACE_CHUNK, bytes, MARK, LOW(8)}
#define CHUNK(at, bytes) {memory_area + (at), WRITE | TRACE_CHUNK, bytes, 0, 0}
#define XSTATE(at) {memory_area + (at), WRITE | TRACE_XSTATE, 0, 0, 0}

static const struct work works[] = {
    {"no access", nothing, {{0}}, 0},
    {"MOV of 1", store_1, {MARKED(64, 1)}, 1},
    {"MOV of 2", store_2, {MARKED(64, 2)}, 1},
    {"MOV of 4", store_4, {MARKED(64, 4)}, 1},
    {"MOV of 8", store_8, {MARKED(64, 8)}, 1},
    {"MOV of 8, twice", store_twice, {MARKED(64, 8), MARKED(4168, 8)}, 2},
    {"over two pages", over_pages, {MARKED(4092, 4)}, 1},
    {"PUSH", push, {MARKED(120, 8)}, 1},
    {"CALL", call, {WRITTEN(120)}, 1},
    {"LOCK XADD", locked, {WRITTEN(64)}, 1},
    {"XCHG", exchange, {MARKED(64, 8)}, 1},
    {"MOVS", move, {WRITTEN(64)}, 1},
    {"REP STOS over a page's end",
     rep_store,
     {MARKED(4032, 8), MARKED_CHUNK(4040, 56), MARKED(4096, 8), MARKED_CHUNK(4104, 8)},
     4},
    {"REP MOVS", rep_move, {WRITTEN(64), CHUNK(65, 99)}, 2},
    {"REP STOS backwards", rep_back, {MARKED(64, 8), MARKED(56, 8)}, 2},
    {"REP STOS of none", rep_none, {{0}}, 0},
    {"behind STI", behind_sti, {MARKED(64, 8)}, 1},
    {"behind MOV SS", behind_mov_ss, {MARKED(64, 8)}, 1},
    {"FXSAVE", save, {XSTATE(512)}, 1},
    {"FXSAVE at 16", save_16, {XSTATE(528)}, 1},
    {"CMPXCHG8B", compare_8, {MARKED(64, 8)}, 1},
    {"CMPXCHG16B", compare_16, {MARKED(64, 8)}, 1},
    {"ENTER", enter, {MARKED(120, 8)}, 1},
    {"MOV of 16", store_16, {MARKED(64, 8)}, 1},
    {"MOV of 32", store_32, {MARKED(64, 8)}, 1},
    {"MASKMOVDQU", masked, {MARKED(64, 8)}, 1},
    {"INC", increment, {WRITTEN(64)}, 1},
    {"BTS", bits, {WRITTEN(64)}, 1},
    {"PUSHF", flags, {WRITTEN(120)}, 1},
    {"SGDT", table, {WRITTEN(64)}, 1},
    {"MOV of SS", segment, {{memory_area + 64, WRITE, 0, DATA_SELECTOR, LOW(2)}}, 1},
    {"MOVNTI", not_temporal, {MARKED(64, 8)}, 1},
    {"XSAVE", save_x, {XSTATE(512)}, 1},
    {"XSAVEC", save_c, {XSTATE(512)}, 1},
    {"XSAVES", save_s, {XSTATE(512)}, 1},
    {"REP MOVS over itself", move_up, {WRITTEN(65), CHUNK(66, 99)}, 2},
    {"REP MOVS over itself, backwards", move_down, {WRITTEN(164), WRITTEN(163), WRITTEN(162)}, 3},
    {"REP MOVS over a page's end",
     move_pages,
     {WRITTEN(4080), CHUNK(4088, 8), WRITTEN(4096), CHUNK(4104, 8)},
     4},
    {"REP STOS, one of them over two pages",
     odd,
     {MARKED(4093, 3), MARKED(4101, 8), MARKED_CHUNK(4109, 8)},
     3},
    {"a page's last byte", last_byte, {{memory_area + 4095, WRITE, 0, MARK & 0xff, LOW(8)}}, 1},
};
#define WORKS (sizeof(works) / sizeof(works[0]))

/* What the work leaves: memory, and what the processor counted. */
struct left {
    uint64_t hash, instructions, branches;
};

static void fill(void)
{
    for (unsigned i = 0; i < sizeof(memory_area); i++)
        memory_area[i] = (uint8_t)(i * 7 + i / 256);
}

static struct left run(const struct work *w)
{
    struct left left = {0};

    wrmsr(IA32_PMC0, 0);
    wrmsr(IA32_PMC0 + 1, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, BIT(0) | BIT(1));
    w->run();
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    left.instructions = rdmsr(IA32_PMC0);
    left.branches = rdmsr(IA32_PMC0 + 1);
    for (unsigned i = 0; i < sizeof(memory_area); i++)
        left.hash = (left.hash ^ memory_area[i]) * HASH;
    return left;
}

/* A REP counts as an instruction at each iteration that is stepped and is not its last. */
static unsigned stepped(const struct work *w)
{
    if (w->run == rep_store || w->run == move_down || w->run == move_pages || w->run == odd)
        return 2;
    return w->run == rep_move || w->run == rep_back || w->run == move_up;
}

/* Off, there is no record; memory and counts are the same with the trace as without it. */
static bool each_kind(void)
{
    bool good = true;

    (void)run(&works[0]);
    for (unsigned i = 0; i < WORKS; i++) {
        fill();
        uint64_t first = memory_records();
        struct left without = run(&works[i]);
        bool none = memory_records() == first;
        fill();
        if (memory_trace_physical(MEMTRACE_WRITES, area, sizeof(memory_area)) != MEMTRACE_OFF) {
            tap_note("%s: the trace could not be turned on", works[i].name);
            return false;
        }
        struct left with = run(&works[i]);
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        good &= memory_expect(works[i].name, first, works[i].wanted, works[i].count);
        without.instructions += stepped(&works[i]);
        if (none && memcmp(&with, &without, sizeof(with)) == 0)
            continue;
        good = false;
        tap_note("%s: memory 0x%lx, %lu instructions, %lu branches; without a trace 0x%lx %lu %lu",
                 works[i].name, with.hash, with.instructions, with.branches, without.hash,
                 without.instructions, without.branches);
    }
    return good;
}

/* The instructions before a record: a store apart; and the second 8 bytes of a value. */
static bool retired(void)
{
    uint64_t first = memory_records();

    (void)memory_trace_physical(MEMTRACE_WRITES, area, sizeof(memory_area));
    store_twice();
    store_16();
    compare_16();
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    uint64_t one = memory_record(first).retired, two = memory_record(first + 1).retired;
    if (two != one + 1)
        tap_note("retired: %lu, and %lu at the next instruction", one, two);
    for (unsigned i = 2; i < 4; i++) {
        uint64_t second = memory_record(first + i).value1, wanted = MARK;
        if (second == wanted)
            continue;
        tap_note("the second 8 bytes: 0x%lx, wanted 0x%lx", second, wanted);
        return false;
    }
    return two == one + 1 && one != 0;
}

/* Vectors and the XSAVE family, as an operating system has them. */
static void enable_xstate(void)
{
    write_cr0(read_cr0() & ~(CR0_EM | CR0_TS));
    write_cr4(read_cr4() | CR4_OSFXSR | CR4_OSXSAVE);
    __asm__ volatile("xsetbv" : : "a"(7), "d"(0), "c"(0));
}

/* `memory-writes`, under memtrace=writes. */
void test_memory_writes(const struct job *job)
{
    if (!memory_offered(job))
        return;
    uint64_t cr0 = read_cr0(), cr4 = read_cr4();
    enable_xstate();
    wrmsr(IA32_PERFEVTSEL0, INSTRUCTIONS);
    wrmsr(IA32_PERFEVTSEL0 + 1, BRANCHES);
    bool good = each_kind() && retired();
    wrmsr(IA32_PERFEVTSEL0, 0);
    wrmsr(IA32_PERFEVTSEL0 + 1, 0);
    write_cr4(cr4);
    write_cr0(cr0);
    tap_result(good, job->name, NULL);
}
