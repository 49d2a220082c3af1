/* SPDX-License-Identifier: BSD-2-Clause
 * step.c: single steps where the step is not of the plain kind: HLT, SYSCALL, SYSRET, and those of
 * branches alone; and the stack segment that SYSRET loads (testbed/patches/17 to 20). SDM Vol. 2,
 * "HLT", "SYSCALL", "SYSRET"; Vol. 3, "Single-Stepping on Branches". What TF does at SYSCALL and
 * SYSRET is as Linux's self-test single_step_syscall.c and its entry code have it.
 */
#include "debug.h"

#define IA32_EFER 0xc0000080u
#define IA32_STAR 0xc0000081u
#define IA32_FMASK 0xc0000084u
#define EFER_SCE BIT(0)
#define DEBUGCTL_BTF BIT(1)
#define RFLAGS_FIXED BIT(1)
/* No table has these descriptors: SYSRET looks at none. */
#define SELECTOR_USER 0x38
#define TSS_RSP0 4
/* Memory that nothing else is in; a push from here crosses 64 KiB. */
#define USER_STACK UINT64_C(0x4000000)

static uint8_t stack[8192] __attribute__((aligned(16)));
static uint64_t begins, goes_on;

/* The instruction with TF set before it; then PUSH and POPFQ, which clears TF. */
#define STEP(instruction)                                                                          \
    do {                                                                                           \
        events_clear();                                                                            \
        __asm__ volatile("lea 2f(%%rip), %%rax\n\tmov %%rax, %0\n\t"                               \
                         "xor %%ecx, %%ecx\n\t"                                                    \
                         "pushfq\n\tpop %%rax\n\tmov %%rax, %%rdx\n\tor %1, %%rax\n\t"             \
                         "push %%rax\n\tpopfq\n\t" instruction "\n"                                \
                         "2:\tpush %%rdx\n\tpopfq"                                                 \
                         : "=m"(goes_on)                                                           \
                         : "r"(RFLAGS_TF)                                                          \
                         : "rax", "rbx", "rcx", "rdx", "memory", "cc");                            \
    } while (0)

/* Each instruction from `goes_on` on has its trap. */
static void check_steps(void)
{
    check_events(3);
    for (unsigned n = 0; n < 3; n++)
        check_event(n, VECTOR_DB, goes_on + n, DR6_BS);
}

static void test_halt(void)
{
    check_about("HLT in single steps, interrupts off", ": ");
    STEP("hlt");
    check_steps();
}

static void test_branch_steps(void)
{
    check_about("TF with BTF", ": ");
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
    /* ZF is 1: the first branch is not taken. */
    STEP("nop\n\tjnz 2f\n\tnop\n\tjmp 2f\n\tnop");
    check_steps();
    check_equal("DEBUGCTL behind a trap", rdmsr(IA32_DEBUGCTL), 0);

    check_about("TF with BTF, MOV SS and a branch", ": ");
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
    STEP("mov %%ss, %%eax\n\tmov %%eax, %%ss\n\tjz 2f\n\tnop");
    check_steps();

    check_about("TF with BTF and no branch", ": ");
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
    STEP("nop\n\tcpuid\n\txor %%edx, %%edx\n\tpushfq\n\tpop %%rdx\n\tand $~0x100, %%rdx");
    check_events(0);
    check_equal("DEBUGCTL", rdmsr(IA32_DEBUGCTL), DEBUGCTL_BTF);
    wrmsr(IA32_DEBUGCTL, 0);
}

/* SYSCALL with TF set, to the label after it, and stays at CPL 0. */
static void system_call(void)
{
    events_clear();
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"
                     "mov %%rax, %%rdx\n\tshr $32, %%rdx\n\tmov %2, %%ecx\n\twrmsr\n\t"
                     "pushfq\n\tpop %%rax\n\tmov %%rax, %%rdx\n\tor %1, %%rax\n\t"
                     "push %%rax\n\tpopfq\n\t"
                     "syscall\n\tud2\n"
                     "1:\tpush %%rdx\n\tpopfq"
                     : "=m"(goes_on)
                     : "r"(RFLAGS_TF), "i"(IA32_LSTAR)
                     : "rax", "rcx", "rdx", "r11", "memory", "cc");
}

/* MOV SS from the watched word, SYSCALL to the label after it. */
static void system_call_watched(void)
{
    events_clear();
    write_dr7(DR7_WATCH_0);
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\t"
                     "mov %%rax, %%rdx\n\tshr $32, %%rdx\n\tmov %2, %%ecx\n\twrmsr\n\t"
                     "mov %1, %%ss\n\t"
                     "syscall\n\tud2\n"
                     "1:\tnop"
                     : "=m"(goes_on)
                     : "m"(watched), "i"(IA32_LSTAR)
                     : "rax", "rcx", "rdx", "r11", "memory", "cc");
    write_dr7(DR7_FIXED);
}

static void test_system_call(void)
{
    check_about("SYSCALL in single steps, TF masked", ": ");
    wrmsr(IA32_FMASK, RFLAGS_TF);
    system_call();
    check_events(0);
    check_about("SYSCALL in single steps, TF not masked", ": ");
    wrmsr(IA32_FMASK, 0);
    system_call();
    check_steps();
    check_about("MOV SS at a watchpoint, then SYSCALL", ": ");
    system_call_watched();
    check_events(1);
    check_event(0, VECTOR_DB, goes_on, DR6_B0);
}

/* SYSRET with these RFLAGS to `user`, with a null SS before it; an event comes back. */
#define SYSTEM_RETURN(flags, sysret, user)                                                         \
    do {                                                                                           \
        events_clear();                                                                            \
        __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tmov %%rsp, %1\n\t"              \
                         "lea 2f(%%rip), %%rcx\n\tmov %%rcx, %2\n\t"                               \
                         "xor %%eax, %%eax\n\tmov %%eax, %%ss\n\t"                                 \
                         "mov %3, %%r11\n\tmov %4, %%rsp\n\t" sysret "\n"                          \
                         "2:\t" user "\n"                                                          \
                         "1:"                                                                      \
                         : "=m"(back.rip), "=m"(back.rsp), "=m"(begins)                            \
                         : "r"((uint64_t)(flags)), "r"(USER_STACK)                                 \
                         : "rax", "rcx", "r11", "memory", "cc");                                   \
    } while (0)

static void test_system_return(void)
{
    check_about("SYSRET", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED, "sysretq", "nop\n\tud2");
    check_events(1);
    check_event(0, VECTOR_UD, begins + 1, 0);
    check_about("SYSRET that sets TF", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED | RFLAGS_TF, "sysretq", "nop\n\tud2");
    check_events(1);
    check_event(0, VECTOR_DB, begins, DR6_BS);
    check_about("a push after SYSRET to compatibility mode", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED, "sysretl", "push %%rax\n\tud2");
    check_events(1);
    check_event(0, VECTOR_UD, begins + 1, 0);
    check_equal("ESP", event_rsp(0), USER_STACK - 4);
}

void test_step(void)
{
    uint64_t cr3, tables = page_tables(PAGE_USER);

    test_halt();
    test_branch_steps();
    __asm__ volatile("mov %%cr3, %0" : "=r"(cr3));
    __asm__ volatile("mov %0, %%cr3" : : "r"(tables) : "memory");
    *(uint64_t *)(void *)(task_state + TSS_RSP0) = (uint64_t)(uintptr_t)(stack + sizeof(stack));
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE);
    wrmsr(IA32_STAR, (uint64_t)SELECTOR_CODE << 32 | (uint64_t)SELECTOR_USER << 48);
    test_system_call();
    test_system_return();
    __asm__ volatile("mov %0, %%cr3" : : "r"(cr3) : "memory");
    events_clear();
}
