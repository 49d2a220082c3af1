/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=: each kind of instruction that writes leaves the record that it has to. The work is in
 * assembly, so that there is no access but its own. SDM Vol. 2, the instructions' pages.
 */
#include "memory.h"

#include "hypercall.h"
#include "x86.h"

#define MARK 0x1122334455667788ULL
#define REPEATS 3

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
        __asm__ volatile(text : : "D"(memory_area), "a"(MARK) : "memory", "cc", "rcx", "rdx",      \
                         "rsi", "r8", "rbx");                                                      \
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

static const struct work works[] = {
    {"no access", nothing, {{0}}, 0},
    {"MOV of 1", store_1, {{memory_area + 64, WRITE, 0, MARK, LOW(1)}}, 1},
    {"MOV of 2", store_2, {{memory_area + 64, WRITE, 0, MARK, LOW(2)}}, 1},
    {"MOV of 4", store_4, {{memory_area + 64, WRITE, 0, MARK, LOW(4)}}, 1},
    {"MOV of 8", store_8, {{memory_area + 64, WRITE, 0, MARK, LOW(8)}}, 1},
    {"MOV of 8, twice", store_twice,
     {{memory_area + 64, WRITE, 0, MARK, LOW(8)}, {memory_area + 4096 + 72, WRITE, 0, MARK, LOW(8)}},
     2},
    {"over two pages", over_pages, {{memory_area + 4092, WRITE, 0, MARK, LOW(4)}}, 1},
    {"PUSH", push, {{memory_area + 120, WRITE, 0, MARK, LOW(8)}}, 1},
    {"CALL", call, {{memory_area + 120, WRITE, 0, 0, 0}}, 1},
    {"LOCK XADD", locked, {{memory_area + 64, WRITE, 0, 0, 0}}, 1},
    {"XCHG", exchange, {{memory_area + 64, WRITE, 0, MARK, LOW(8)}}, 1},
    {"MOVS", move, {{memory_area + 64, WRITE, 0, 0, 0}}, 1},
    {"REP STOS over a page's end", rep_store,
     {{memory_area + 4032, WRITE, 0, MARK, LOW(8)},
      {memory_area + 4040, WRITE | TRACE_CHUNK, 56, MARK, LOW(8)},
      {memory_area + 4096, WRITE, 0, MARK, LOW(8)},
      {memory_area + 4104, WRITE | TRACE_CHUNK, 8, MARK, LOW(8)}}, 4},
    {"REP MOVS", rep_move,
     {{memory_area + 64, WRITE, 0, 0, 0}, {memory_area + 65, WRITE | TRACE_CHUNK, 99, 0, 0}}, 2},
    {"REP STOS backwards", rep_back,
     {{memory_area + 64, WRITE, 0, MARK, LOW(8)}, {memory_area + 56, WRITE, 0, MARK, LOW(8)}}, 2},
    {"REP STOS of none", rep_none, {{0}}, 0},
    {"behind STI", behind_sti, {{memory_area + 64, WRITE, 0, MARK, LOW(8)}}, 1},
    {"behind MOV SS", behind_mov_ss, {{memory_area + 64, WRITE, 0, MARK, LOW(8)}}, 1},
    {"FXSAVE", save, {{memory_area + 512, WRITE | TRACE_XSTATE, 0, 0, 0}}, 1},
};
#define WORKS (sizeof(works) / sizeof(works[0]))

static bool each_kind(void)
{
    bool good = true;

    for (unsigned i = 0; i < WORKS; i++) {
        uint64_t first = memory_records();

        if (memory_trace_physical(MEMTRACE_WRITES, area, sizeof(memory_area)) != MEMTRACE_OFF) {
            tap_note("%s: the trace could not be turned on", works[i].name);
            return false;
        }
        works[i].run();
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        good &= memory_expect(works[i].name, first, works[i].wanted, works[i].count);
        works[i].run(); /* off: no record */
        good &= memory_records() == first + works[i].count;
    }
    return good;
}

/* `memory-writes`, under memtrace=writes. */
void test_memory_writes(const struct job *job)
{
    if (!memory_offered(job))
        return;
    tap_result(each_kind(), job->name, NULL);
}
