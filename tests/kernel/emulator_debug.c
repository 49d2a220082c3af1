/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Debug exceptions around MOV SS, and those of DR7.GD. SDM Vol. 3, "Masking Exceptions and
 * Interrupts When Switching Stacks", "General-Detect Exception Condition", "Single-Step Exception
 * Condition"; what comes after INT n, INT3, INT1 and a fault is as debug.c of kvm-unit-tests and
 * mov_ss_trap.c of Linux's self-tests have it of real processors.
 */
#include "emulator.h"

#define EVENTS 8

static volatile struct event events[EVENTS];
volatile uint64_t event_rsp;
static volatile unsigned seen;
volatile uint16_t watched = DATA_SELECTOR;
struct back back;
/* The addresses of the instruction under test and of the next instruction. */
static uint64_t begins, goes_on;

static void note(struct trap_frame *frame)
{
    if (seen == 0)
        event_rsp = frame->rsp;
    if (seen < EVENTS) {
        events[seen].vector = (unsigned)frame->vector;
        events[seen].rip = frame->rip;
        events[seen].dr6 = read_dr6();
    }
    seen++;
    write_dr6(DR6_RESET);
    if (seen >= EVENTS)
        frame->rflags &= ~RFLAGS_TF;
}

static void go_back(struct trap_frame *frame)
{
    if (back.rip == 0)
        return;
    frame->rip = back.rip;
    frame->cs = CODE_SELECTOR;
    frame->rflags &= ~RFLAGS_TF;
    frame->rsp = back.rsp;
    frame->ss = DATA_SELECTOR;
    back.rip = 0;
}

static void on_debug(struct trap_frame *frame)
{
    note(frame);
    go_back(frame);
}

static void on_undefined(struct trap_frame *frame)
{
    note(frame);
    frame->rip += UD2_LENGTH;
    go_back(frame);
}

void events_clear(void)
{
    write_dr7(DR7_RESET);
    write_dr6(DR6_RESET);
    seen = 0;
}

void check_events(const struct event *wanted, unsigned count)
{
    check_equal("events", seen, count);
    for (unsigned n = 0; n < count; n++) {
        check_equal("vector", events[n].vector, wanted[n].vector);
        check_equal("RIP", events[n].rip, wanted[n].rip);
        check_equal("DR6", events[n].dr6, DR6_RESET | wanted[n].dr6);
    }
}

/* Executes MOV SS from the watched word, then the instruction, and checks the events. `flags` may
 * have TF. */
#define MOV_SS_AND(what, flags, instruction, ...)                                                  \
    do {                                                                                           \
        check_about("MOV SS at a watchpoint, then ", what ": ");                                   \
        events_clear();                                                                            \
        write_dr7(DR7_WATCH_0);                                                                    \
        __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"                               \
                         "lea 2f(%%rip), %%rax\n\tmov %%rax, %1\n\t"                               \
                         "pushfq\n\tpop %%rax\n\tmov %%rax, %%rdx\n\tor %3, %%rax\n\t"             \
                         "push %%rax\n\tpopfq\n\t"                                                 \
                         "mov %2, %%ss\n"                                                          \
                         "1:\t" instruction "\n"                                                   \
                         "2:\tpush %%rdx\n\tpopfq"                                                 \
                         : "=m"(begins), "=m"(goes_on)                                             \
                         : "m"(watched), "r"((uint64_t)(flags))                                    \
                         : "rax", "rdx", "memory", "cc");                                          \
        write_dr7(DR7_RESET);                                                                      \
        CHECK_EVENTS(__VA_ARGS__);                                                                 \
    } while (0)

static void check_mov_ss(void)
{
    MOV_SS_AND("NOP", 0, "nop", {VECTOR_DB, goes_on, DR6_B0});
    MOV_SS_AND("INT3", 0, "int3", {VECTOR_DB, handler_of(VECTOR_BP), DR6_B0},
               {VECTOR_BP, goes_on, 0});
    MOV_SS_AND("INT n", 0, "int $0x42", {VECTOR_DB, handler_of(VECTOR_SOFTWARE), DR6_B0},
               {VECTOR_SOFTWARE, goes_on, 0});
    MOV_SS_AND("INT 1 by two bytes: the handler interrupts itself", 0, ".byte 0xcd, 1",
               {VECTOR_DB, handler_of(VECTOR_DB), DR6_B0}, {VECTOR_DB, goes_on, 0});
    MOV_SS_AND("INT1", 0, ".byte 0xf1", {VECTOR_DB, goes_on, 0});
    MOV_SS_AND("a fault", 0, "ud2", {VECTOR_UD, begins, 0});
    /* INT3 clears TF, so only the watchpoint is pending. After the handler TF is 1 again: PUSH
     * traps, and the POPFQ that clears TF traps. */
    MOV_SS_AND("INT3, in single steps", RFLAGS_TF, "int3",
               {VECTOR_DB, handler_of(VECTOR_BP), DR6_B0}, {VECTOR_BP, goes_on, 0},
               {VECTOR_DB, goes_on + 1, DR6_BS}, {VECTOR_DB, goes_on + 2, DR6_BS});
}

/* Executes MOV from DR6 with DR7.GD set, in single steps. The MOV faults, and traps when it is
 * executed again. Then PUSH and POPFQ trap. */
#define GENERAL_DETECT(what, before)                                                               \
    do {                                                                                           \
        check_about("DR7.GD in single steps", what ": ");                                          \
        events_clear();                                                                            \
        write_dr7(DR7_RESET | DR7_GD);                                                             \
        __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"                               \
                         "lea 2f(%%rip), %%rax\n\tmov %%rax, %1\n\t"                               \
                         "mov %%ss, %%ecx\n\t"                                                     \
                         "pushfq\n\tpop %%rax\n\tmov %%rax, %%rdx\n\tor %2, %%rax\n\t"             \
                         "push %%rax\n\tpopfq\n\t" before "1:\tmov %%dr6, %%rax\n"                 \
                         "2:\tpush %%rdx\n\tpopfq"                                                 \
                         : "=m"(begins), "=m"(goes_on)                                             \
                         : "r"(RFLAGS_TF)                                                          \
                         : "rax", "rcx", "rdx", "memory", "cc");                                   \
        CHECK_EVENTS({VECTOR_DB, begins, DR6_BD}, {VECTOR_DB, goes_on, DR6_BS},                    \
                     {VECTOR_DB, goes_on + 1, DR6_BS}, {VECTOR_DB, goes_on + 2, DR6_BS});          \
    } while (0)

void events_begin(void)
{
    handle(VECTOR_DB, on_debug);
    handle(VECTOR_BP, note);
    handle(VECTOR_UD, on_undefined);
    handle(VECTOR_SOFTWARE, note);
    write_dr0((uintptr_t)&watched);
    events_clear();
}

void emulator_debug(void)
{
    events_begin();
    check_mov_ss();
    GENERAL_DETECT("", "");
    GENERAL_DETECT(", behind MOV SS", "mov %%ecx, %%ss\n");
    events_clear();
}
