/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The NMI handlers of the measurements, and the loops in which an NMI is waited for. In assembly:
 * what is between two time stamps is counted by the instruction.
 * SDM Vol. 3, "Nonmaskable Interrupt (NMI)", "Handling Multiple NMIs".
 */
#include "internal.h"

#ifdef __KERNEL__
#include <asm/linkage.h>
#include <linux/objtool.h>
#define RETURN ASM_RET /* as the kernel's mitigations want it */
void measure_nmi_code(void);
/* Handlers, and loops that end elsewhere: nothing that the kernel's unwinder could follow. */
STACK_FRAME_NON_STANDARD(measure_nmi_code);
#else
#define RETURN "ret\n\t"
#endif

#define WAIT_TURNS 10000000ull /* for an NMI that was sent: much longer than any takes */

void (*volatile measure_nmi_action)(void);
uint64_t measure_nmi_strays;
struct stamps measure_stamps;

_Static_assert(offsetof(struct stamps, last) == 0 && offsetof(struct stamps, first) == 4 &&
                   offsetof(struct stamps, leave) == 8 && offsetof(struct stamps, back) == 12 &&
                   offsetof(struct stamps, events) == 16,
               "the assembly knows these");

void measure_nmi_handle(void);

void measure_nmi_handle(void)
{
    void (*action)(void) = measure_nmi_action;

    if (action != NULL)
        action();
    else
        measure_nmi_strays++;
}

/* Both handlers leave the loop that they interrupted through its second way out; an NMI that came
 * anywhere else is a stray. What the loops give up: RAX, RDX, R9. */
#define WAY_OUT(rip, label, stray)                                                                 \
    "lea .Lwait_first(%rip), %rdx\n\t"                                                             \
    "cmp %rdx, " rip "\n\t"                                                                        \
    "jb " stray "\n\t"                                                                             \
    "lea .Lwait_last(%rip), %rdx\n\t"                                                              \
    "cmp %rdx, " rip "\n\t"                                                                        \
    "ja " stray "\n\t"                                                                             \
    "lea " label "(%rip), %rdx\n\t"                                                                \
    "mov %rdx, " rip "\n\t"

#define WAIT                                                                                       \
    "1:\n\t"                                                                                       \
    "dec %rdi\n\t"                                                                                 \
    "jnz 1b\n\t"                                                                                   \
    "xor %eax, %eax\n\t" RETURN

#define BEGIN_REGION                                                                               \
    "mov %r10d, %eax\n\t"                                                                          \
    "mov $1, %ecx\n\t"                                                                             \
    "xchg %bx, %bx\n\t"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

#define FUNCTION(name) ".p2align 6\n.globl " name "\n" name ":\n\tendbr64\n\t"

/* A stamp that follows a branch, as the emulator needs it (internal.h, TSC_STAMP). */
#define STAMP_LOW(register)                                                                        \
    "lfence\n\t"                                                                                   \
    "jmp 2f\n"                                                                                     \
    "2:\n\t"                                                                                       \
    "rdtsc\n\t"                                                                                    \
    "mov %eax, " register "\n\t"

/* ENDBR64, because Linux may have indirect branch tracking on; a NOP otherwise. */
/* clang-format off */
__asm__(".text\n"
        ".p2align 6\n"
        ".type measure_nmi_code, @function\n"
        "measure_nmi_code:\n"
        ".p2align 4\n"
        ".globl measure_nmi_call\n"
        "measure_nmi_call:\n\t"
        "endbr64\n\t"
        "push %rax\n\t"
        "push %rcx\n\t"
        "push %rdx\n\t"
        "push %rbp\n\t"
        "push %rsi\n\t"
        "push %rdi\n\t"
        "push %r8\n\t"
        "push %r9\n\t"
        "push %r10\n\t"
        "push %r11\n\t"
        "mov %rsp, %rbp\n\t"
        "and $-16, %rsp\n\t"
        "cld\n\t"
        "call measure_nmi_handle\n\t"
        "mov %rbp, %rsp\n\t"
        "pop %r11\n\t"
        "pop %r10\n\t"
        "pop %r9\n\t"
        "pop %r8\n\t"
        "pop %rdi\n\t"
        "pop %rsi\n\t"
        "pop %rbp\n\t"
        "pop %rdx\n\t"
        "pop %rcx\n\t"
        "pop %rax\n\t"
        "iretq\n"

        FUNCTION("measure_nmi_stamp")
        "push %rax\n\t"
        "push %rdx\n\t"
        "rdtsc\n\t"
        WAY_OUT("16(%rsp)", ".Lstamped", ".Lstray_stamp")
        "mov %eax, 4+measure_stamps(%rip)\n\t"
        "add $16, %rsp\n\t"
        STAMP_LOW("%r9d")
        "iretq\n"

        /* The same; the overflowed counter is read after the time stamp, before a branch that it
         * would count. */
        FUNCTION("measure_nmi_overflow")
        "push %rax\n\t"
        "push %rdx\n\t"
        "rdtsc\n\t"
        "push %rcx\n\t"
        "push %rax\n\t"
        "mov $0, %ecx\n\t"
        "rdpmc\n\t"
        "push %rax\n\t"
        WAY_OUT("40(%rsp)", ".Lstamped", ".Lstray_overflow")
        "pop %rax\n\t"
        "mov %eax, 16+measure_stamps(%rip)\n\t"
        "pop %rax\n\t"
        "mov %eax, 4+measure_stamps(%rip)\n\t"
        "add $24, %rsp\n\t"
        STAMP_LOW("%r9d")
        "iretq\n"

        /* R10: the region that ends here; R11: the one that begins here. */
        FUNCTION("measure_nmi_mark")
        "push %rcx\n\t"
        "push %rax\n\t"
        "push %rdx\n\t"
        "mov %r10d, %eax\n\t"
        "mov $0, %ecx\n\t"
        "xchg %bx, %bx\n\t"
        WAY_OUT("24(%rsp)", ".Lmarked", ".Lstray_mark")
        "add $24, %rsp\n\t"
        "mov %r11d, %eax\n\t"
        "mov $1, %ecx\n\t"
        "xchg %bx, %bx\n\t"
        "iretq\n"

        ".Lstray_mark:\n\t"
        "pop %rdx\n\t"
        "pop %rax\n\t"
        "pop %rcx\n\t"
        "incq measure_nmi_strays(%rip)\n\t"
        "iretq\n"

        ".Lstray_overflow:\n\t"
        "add $16, %rsp\n\t"
        "pop %rcx\n"
        ".Lstray_stamp:\n\t"
        "pop %rdx\n\t"
        "pop %rax\n\t"
        "incq measure_nmi_strays(%rip)\n\t"
        "iretq\n"

        ".Lwait_first:\n"
        FUNCTION("wait_overflow")
        "1:\n\t"
        "rdtsc\n\t"
        "mov %eax, %r8d\n\t"
        "dec %rdi\n\t"
        "jnz 1b\n\t"
        "xor %eax, %eax\n\t"
        RETURN

        FUNCTION("wait_sent_xapic")
        "mov %edx, %ecx\n\t"
        STAMP_LOW("%r8d")
        "mov %ecx, (%rsi)\n"
        WAIT

        FUNCTION("wait_sent_x2apic")
        "mov %edx, %r10d\n\t"
        "mov %ecx, %r11d\n\t"
        "mov %esi, %ecx\n\t"
        STAMP_LOW("%r8d")
        "mov %r10d, %eax\n\t"
        "mov %r11d, %edx\n\t"
        "wrmsr\n"
        WAIT

        /* GLOBAL_CTRL <- 1 starts the counter, which the JMP overflows. */
        FUNCTION("mark_overflow")
        "mov %edx, %r11d\n\t"
        "mov %esi, %r10d\n\t"
        "mov $" TEXT(MSR_GLOBAL_CTRL) ", %ecx\n\t"
        "mov $" TEXT(COUNTER_0) ", %eax\n\t"
        "mov $0, %edx\n\t"
        "wrmsr\n\t"
        BEGIN_REGION
        "jmp 1f\n"
        WAIT

        FUNCTION("mark_sent_xapic")
        "mov %edx, %r11d\n\t"
        "mov %esi, %r10d\n\t"
        "mov %rcx, %rdx\n\t"
        BEGIN_REGION
        "mov %r8d, (%rdx)\n"
        WAIT

        FUNCTION("mark_sent_x2apic")
        "mov %edx, %r11d\n\t"
        "mov %esi, %r10d\n\t"
        "mov %ecx, %esi\n\t"
        BEGIN_REGION
        "mov %esi, %ecx\n\t"
        "mov %r8d, %eax\n\t"
        "mov %r9d, %edx\n\t"
        "wrmsr\n"
        WAIT

        ".Lwait_last:\n"

        ".p2align 6\n"
        ".Lstamped:\n\t"
        "rdtsc\n\t"
        "mov %eax, 12+measure_stamps(%rip)\n\t"
        "mov %r8d, measure_stamps(%rip)\n\t"
        "mov %r9d, 8+measure_stamps(%rip)\n\t"
        "mov $1, %eax\n\t"
        RETURN

        ".Lmarked:\n\t"
        "mov $0, %ecx\n\t"
        "xchg %bx, %bx\n\t"
        "mov $1, %eax\n\t"
        RETURN
        ".size measure_nmi_code, . - measure_nmi_code\n");
/* clang-format on */

static void (*once_action)(void);

static void run_once(void)
{
    measure_nmi_action = NULL;
    once_action();
    once_action = NULL;
}

static void send_nmi(void)
{
    uint32_t low, high;
    volatile uint32_t *icr = self_nmi_prepare(&low, &high);

    if (icr != NULL)
        *icr = low;
    else
        wrmsr(X2APIC_ICR, (uint64_t)high << 32 | low);
}

static uint64_t strays_before;

void nmi_take(const void *handler)
{
    strays_before = measure_nmi_strays;
    measure_host->nmi_entry(handler);
}

void nmi_give_back(void)
{
    measure_host->nmi_entry(NULL);
    if (measure_nmi_strays != strays_before)
        send_nmi();
}

bool nmi_run(void (*action)(void))
{
    once_action = action;
    measure_nmi_action = run_once;
    nmi_take(measure_nmi_call);
    send_nmi();
    for (uint64_t i = 0; i < WAIT_TURNS && measure_nmi_action != NULL; i++)
        __asm__ volatile("pause" : : : "memory");
    bool came = measure_nmi_action == NULL;
    measure_nmi_action = NULL;
    nmi_give_back();
    return came;
}
