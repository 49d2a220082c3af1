// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The load: four functions of known length, in each round two of them with interrupts off.
 */
#include <linux/kernel.h>
#include <linux/linkage.h>

#include "closed.h"

#define BEGIN(name)                                                                                \
    ".pushsection .text\n"                                                                         \
    ".globl " #name "\n.type " #name ", @function\n" #name ":\n"
#define END(name)                                                                                  \
    ASM_RET                                                                                        \
    ".globl " #name "_end\n" #name "_end:\n"                                                       \
    ".size " #name ", . - " #name "\n.popsection"
#define DECLARE(name)                                                                              \
    asmlinkage void name(unsigned int rounds);                                                     \
    extern const char name##_end[]
/* NAME is COUNT NOPs and its return. */
#define STRETCH(name, count)                                                                       \
    asm(BEGIN(name) ".rept " #count "\n\tnop\n.endr\n" END(name));                                 \
    DECLARE(name)

STRETCH(open_32, 32);
STRETCH(closed_12, 12);
STRETCH(open_8, 8);
STRETCH(closed_64, 64);

/* Both ways in which a kernel ends a masked stretch: POPF and STI. */
/* clang-format off */
asm(BEGIN(work_rounds)
    "push %rbx\n"
    "mov %edi, %ebx\n"
    "1: call open_32\n"
    "pushf\ncli\n"
    "call closed_12\n"
    "popf\n"
    "call open_8\n"
    "cli\n"
    "call closed_64\n"
    "sti\n"
    "dec %ebx\n"
    "jnz 1b\n"
    "pop %rbx\n"
    END(work_rounds));
/* clang-format on */
extern const char work_rounds_end[];

unsigned int work_functions(const struct work_function **functions)
{
    static struct work_function all[] = {
        {"open_32", (unsigned long)open_32, (unsigned long)open_32_end},
        {"closed_12", (unsigned long)closed_12, (unsigned long)closed_12_end},
        {"open_8", (unsigned long)open_8, (unsigned long)open_8_end},
        {"closed_64", (unsigned long)closed_64, (unsigned long)closed_64_end},
        {"work_rounds", (unsigned long)work_rounds, (unsigned long)work_rounds_end},
    };

    *functions = all;
    return ARRAY_SIZE(all);
}
