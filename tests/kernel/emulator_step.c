/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Single steps where the step is not of the plain kind: HLT, SYSCALL, SYSRET, and those of
 * branches alone; and the stack segment that SYSRET loads (testbed/patches/17 to 20). SDM Vol. 2,
 * "HLT", "SYSCALL", "SYSRET"; Vol. 3, "Single-Stepping on Branches". What TF does at SYSCALL and
 * SYSRET is as Linux's self-test single_step_syscall.c and its entry code have it.
 */
#include "emulator.h"

/* The GDT has no descriptors for it, because SYSRET reads none. */
#define SELECTOR_USER 0x38

static uint8_t stack[8192] __attribute__((aligned(16)));
static uint64_t begins, goes_on;

/* Sets TF and executes the instruction, then PUSH, then the POPFQ that clears TF. */
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

/* The instruction before `goes_on`, PUSH and POPFQ have trapped. */
static void check_steps(void)
{
    CHECK_EVENTS({VECTOR_DB, goes_on, DR6_BS}, {VECTOR_DB, goes_on + 1, DR6_BS},
                 {VECTOR_DB, goes_on + 2, DR6_BS});
}

static void check_halt(void)
{
    check_about("HLT in single steps, interrupts off", ": ");
    STEP("hlt");
    check_steps();
}

static void check_branch_steps(void)
{
    check_about("TF with BTF", ": ");
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_BTF);
    /* ZF is 1, so the first branch is not taken. */
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
    check_events(NULL, 0);
    check_equal("DEBUGCTL", rdmsr(IA32_DEBUGCTL), DEBUGCTL_BTF);
    wrmsr(IA32_DEBUGCTL, 0);
}

/* Executes SYSCALL with TF set. It goes to the label after it, at CPL 0. */
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

/* Executes MOV SS from the watched word, then SYSCALL to the label after it. */
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
    write_dr7(DR7_RESET);
}

static void check_system_call(void)
{
    check_about("SYSCALL in single steps, TF masked", ": ");
    wrmsr(IA32_FMASK, RFLAGS_TF);
    system_call();
    check_events(NULL, 0);
    check_about("SYSCALL in single steps, TF not masked", ": ");
    wrmsr(IA32_FMASK, 0);
    system_call();
    check_steps();
    check_about("MOV SS at a watchpoint, then SYSCALL", ": ");
    system_call_watched();
    CHECK_EVENTS({VECTOR_DB, goes_on, DR6_B0});
}

/* SYSRET with these RFLAGS to `user`, with a null SS before it; an event comes back. `user` is
 * where the kernel lies in memory, because compatibility mode has 32-bit addresses. A push onto the
 * stack crosses 64 KiB. */
#define SYSTEM_RETURN(flags, sysret, user)                                                         \
    do {                                                                                           \
        events_clear();                                                                            \
        __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tmov %%rsp, %1\n\t"              \
                         "lea 2f(%%rip), %%rcx\n\tsub %5, %%rcx\n\tmov %%rcx, %2\n\t"              \
                         "xor %%eax, %%eax\n\tmov %%eax, %%ss\n\t"                                 \
                         "mov %3, %%r11\n\tmov %4, %%rsp\n\t" sysret "\n"                          \
                         "2:\t" user "\n"                                                          \
                         "1:"                                                                      \
                         : "=m"(back.rip), "=m"(back.rsp), "=m"(begins)                            \
                         : "r"((uint64_t)(flags)), "r"(FREE_MEMORY), "r"(below)                    \
                         : "rax", "rcx", "r11", "memory", "cc");                                   \
    } while (0)

static void check_system_return(void)
{
    const uint64_t here = (uintptr_t)check_system_return;
    const uint64_t below = here - fuzz_physical((const void *)check_system_return);

    check_about("SYSRET", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED, "sysretq", "nop\n\tud2");
    CHECK_EVENTS({VECTOR_UD, begins + 1, 0});
    check_about("SYSRET that sets TF", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED | RFLAGS_TF, "sysretq", "nop\n\tud2");
    CHECK_EVENTS({VECTOR_DB, begins, DR6_BS});
    check_about("a push after SYSRET to compatibility mode", ": ");
    SYSTEM_RETURN(RFLAGS_FIXED, "sysretl", "push %%rax\n\tud2");
    CHECK_EVENTS({VECTOR_UD, begins + 1, 0});
    check_equal("ESP", event_rsp, FREE_MEMORY - 4);
}

/* Lets CPL 3 access the kernel where it lies in memory, and the stack. */
static void for_user(bool user)
{
    (void)page_for_user(fuzz_physical((const void *)check_system_return), user);
    (void)page_for_user(FREE_MEMORY - 1, user);
    (void)page_for_user(FREE_MEMORY, user);
}

void emulator_step(void)
{
    events_begin();
    check_halt();
    check_branch_steps();
    for_user(true);
    cpu_task_state()->rsp[0] = (uintptr_t)(stack + sizeof(stack));
    wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE);
    wrmsr(IA32_STAR, (uint64_t)CODE_SELECTOR << 32 | (uint64_t)SELECTOR_USER << 48);
    check_system_call();
    check_system_return();
    for_user(false);
    events_clear();
}
