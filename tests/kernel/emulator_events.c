/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exact counts of what is between the WRMSR that starts a counter and the one that stops
 * it: instructions, memory accesses, cache misses, mispredictions. SDM Vol. 3, "Performance
 * Monitoring"; Vol. 2, "CLFLUSH", "CLFLUSHOPT", "CLWB", "WBINVD".
 */
#include "emulator.h"

#define EVENT_CYCLES 0x3cu
#define EVENT_BRANCH_MISSES 0xc5u
#define EVENT_ALL_LOADS 0x81d0u
#define EVENT_ALL_STORES 0x82d0u
#define EVENT_L1D_REPLACEMENT 0x151u
#define EVENT_OFFCORE_RESPONSE_0 0x1b7u
#define DEMAND_DATA_RD_MISSES 0x3ffc020001
#define DEMAND_RFO_MISSES 0x3ffc020002
#define ROUNDS 1000u
/* Instructions that the counter counts if `body` is empty: the first WRMSR and two XORs. */
#define AROUND 3
#define LINE 64

static volatile uint8_t *const ram = (volatile uint8_t *)FREE_MEMORY;

static void flush(void) { __asm__ volatile("clflush (%0)" : : "r"(ram) : "memory"); }

static void prepare(uint64_t event)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, event | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, 0);
}

/* Counts the event in `body`. RSI is `ram`. `body` may change RAX, RBX, RDX, RSI and RDI. */
#define COUNT(event, body)                                                                         \
    ({                                                                                             \
        uint64_t a_ = 1, d_ = 0, rsi_ = (uint64_t)ram;                                             \
        prepare(event);                                                                            \
        __asm__ volatile("wrmsr\n\t" body "\n\t"                                                   \
                         "xor %%eax, %%eax\n\txor %%edx, %%edx\n\twrmsr"                           \
                         : "+a"(a_), "+d"(d_), "+S"(rsi_)                                          \
                         : "c"(IA32_PERF_GLOBAL_CTRL), [rounds] "i"(ROUNDS), [line] "i"(LINE)      \
                         : "rbx", "rdi", "memory", "cc");                                          \
        rdmsr(IA32_PMC0);                                                                          \
    })

/* Repeats `body` ROUNDS times, with two more instructions in each round and one before them. */
#define REPEAT(body) "mov %[rounds], %%edi\n1:\n\t" body "\n\tdec %%edi\n\tjnz 1b"

/* The counter counts exactly one of the two WRMSRs. */
static void check_wrmsr(void)
{
    check_equal("nothing between two WRMSRs", COUNT(EVENT_INSTRUCTIONS, ""), AROUND);
    check_equal("its cycles", COUNT(EVENT_CYCLES, ""), AROUND);
    check_equal("its branches", COUNT(EVENT_BRANCHES, ""), 0);
    check_equal("a loop", COUNT(EVENT_INSTRUCTIONS, REPEAT("nop")), AROUND + 1 + 3 * ROUNDS);
    check_equal("its cycles", COUNT(EVENT_CYCLES, REPEAT("nop")), AROUND + 1 + 3 * ROUNDS);
    check_equal("its branches", COUNT(EVENT_BRANCHES, REPEAT("nop")), ROUNDS);
}

static void check_accesses(void)
{
    static const char read_modify_write[] = "an instruction that does both";

    check_equal("loads", COUNT(EVENT_ALL_LOADS, REPEAT("mov (%%rsi), %%rax")), ROUNDS);
    check_equal("no stores", COUNT(EVENT_ALL_STORES, REPEAT("mov (%%rsi), %%rax")), 0);
    check_equal("stores", COUNT(EVENT_ALL_STORES, REPEAT("mov %%rax, (%%rsi)")), ROUNDS);
    check_equal("no loads", COUNT(EVENT_ALL_LOADS, REPEAT("mov %%rax, (%%rsi)")), 0);
    check_equal(read_modify_write, COUNT(EVENT_ALL_LOADS, REPEAT("incq (%%rsi)")), ROUNDS);
    check_equal(read_modify_write, COUNT(EVENT_ALL_STORES, REPEAT("incq (%%rsi)")), ROUNDS);
    check_equal("across lines", COUNT(EVENT_ALL_LOADS, REPEAT("mov 60(%%rsi), %%rax")), ROUNDS);
    check_equal("across pages", COUNT(EVENT_ALL_LOADS, REPEAT("mov 4092(%%rsi), %%rax")), ROUNDS);
    check_equal("push", COUNT(EVENT_ALL_STORES, REPEAT("push %%rax\n\tpop %%rax")), ROUNDS);
    check_equal("pop", COUNT(EVENT_ALL_LOADS, REPEAT("push %%rax\n\tpop %%rax")), ROUNDS);
    check_equal("prefetch", COUNT(EVENT_ALL_LOADS, REPEAT("prefetcht0 (%%rsi)")), ROUNDS);
    check_equal("no operand", COUNT(EVENT_ALL_LOADS, REPEAT("lea (%%rsi), %%rax")), 0);
    check_equal("REP MOVS loads once",
                COUNT(EVENT_ALL_LOADS, "mov %%rcx, %%rbx\n\tlea 4096(%%rsi), %%rdi\n\t"
                                       "mov $1000, %%ecx\n\trep movsb\n\tmov %%rbx, %%rcx"),
                1);
    check_equal("REP STOS stores once",
                COUNT(EVENT_ALL_STORES, "mov %%rcx, %%rbx\n\tmov %%rsi, %%rdi\n\t"
                                        "mov $1000, %%ecx\n\trep stosb\n\tmov %%rbx, %%rcx"),
                1);
    check_equal("REP STOS of nothing stores nothing",
                COUNT(EVENT_ALL_STORES, "mov %%rcx, %%rbx\n\tmov %%rsi, %%rdi\n\t"
                                        "xor %%ecx, %%ecx\n\trep stosb\n\tmov %%rbx, %%rcx"),
                0);
}

/* The caches are watched only while the counter runs, so each body warms them itself. */
static void check_flush(void)
{
    wrmsr(MSR_OFFCORE_RSP_0, DEMAND_DATA_RD_MISSES);
    wrmsr(MSR_OFFCORE_RSP_1, DEMAND_RFO_MISSES);
    check_equal("reads of one line: one miss",
                COUNT(EVENT_OFFCORE_RESPONSE_0, "clflush (%%rsi)\n\t" REPEAT("mov (%%rsi), %%rax")),
                1);
    check_equal("CLFLUSH and a read: a miss each",
                COUNT(EVENT_OFFCORE_RESPONSE_0, REPEAT("clflush (%%rsi)\n\tmov (%%rsi), %%rax")),
                ROUNDS);
    check_equal("the same by LLC misses",
                COUNT(EVENT_LLC_MISSES, REPEAT("clflush (%%rsi)\n\tmov (%%rsi), %%rax")), ROUNDS);
    check_equal("and by references",
                COUNT(EVENT_LLC_REFERENCES, REPEAT("clflush (%%rsi)\n\tmov (%%rsi), %%rax")),
                ROUNDS);
    check_equal("and in L1",
                COUNT(EVENT_L1D_REPLACEMENT, REPEAT("clflush (%%rsi)\n\tmov (%%rsi), %%rax")),
                ROUNDS);
    check_equal("CLFLUSHOPT",
                COUNT(EVENT_LLC_MISSES, REPEAT("clflushopt (%%rsi)\n\tmov (%%rsi), %%rax")),
                ROUNDS);
    check_equal("CLWB keeps the line",
                COUNT(EVENT_LLC_MISSES, REPEAT("clwb (%%rsi)\n\tmov (%%rsi), %%rax")), 0);
    check_equal("another line stays",
                COUNT(EVENT_LLC_MISSES, REPEAT("clflush 128(%%rsi)\n\tmov (%%rsi), %%rax")), 0);
    check_equal("WBINVD",
                COUNT(EVENT_LLC_MISSES, "mov $10, %%edi\n1:\n\twbinvd\n\t"
                                        "mov (%%rsi), %%rax\n\tdec %%edi\n\tjnz 1b"),
                10);
    check_equal(
        "a flush that nobody watches counts as well",
        (prepare(EVENT_INSTRUCTIONS), flush(), COUNT(EVENT_LLC_MISSES, "mov (%%rsi), %%rax")), 1);
    check_equal("writes are no reads",
                COUNT(EVENT_OFFCORE_RESPONSE_0, REPEAT("clflush (%%rsi)\n\tmov %%rax, (%%rsi)")),
                0);
    wrmsr(MSR_OFFCORE_RSP_0, DEMAND_RFO_MISSES);
    check_equal("but requests to own the line",
                COUNT(EVENT_OFFCORE_RESPONSE_0, REPEAT("clflush (%%rsi)\n\tmov %%rax, (%%rsi)")),
                ROUNDS);
}

static void check_branches(void)
{
    check_equal("a loop: its first branch and its last", COUNT(EVENT_BRANCH_MISSES, REPEAT("nop")),
                2);
    check_equal("calls and returns",
                COUNT(EVENT_BRANCH_MISSES, REPEAT("call 2f\n\tjmp 3f\n2:\n\tret\n3:")), 2);
    check_equal("an indirect jump to one place",
                COUNT(EVENT_BRANCH_MISSES, "lea 2f(%%rip), %%rax\n\t" REPEAT("jmp *%%rax\n2:")), 3);
    /* The jumps go in turn to the next instruction and to the one after it, 1 byte further. */
    check_equal("and to two in turn",
                COUNT(EVENT_BRANCH_MISSES,
                      "lea 2f(%%rip), %%rax\n\t" REPEAT("jmp *%%rax\n2:\n\tnop\n\t"
                                                        "lea 2b(%%rip), %%rbx\n\txor $1, %%rdx\n\t"
                                                        "lea (%%rbx, %%rdx), %%rax")),
                ROUNDS + 2);
}

void emulator_events(void)
{
    check_wrmsr();
    check_accesses();
    check_flush();
    check_branches();
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
}
