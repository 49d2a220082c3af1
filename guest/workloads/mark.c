/* SPDX-License-Identifier: BSD-2-Clause
 * mark.c: `mark ID 1` begins and `mark ID 0` ends a region of the emulator's ledger, for scripts:
 * testbed/README.md, "Ledger". Nothing on hardware. Without the C library, so that little of its own
 * start and end is in the region.
 */
#include <asm/unistd_64.h>

static unsigned number(const char *text)
{
    unsigned value = 0;

    while (*text >= '0' && *text <= '9') {
        value = value * 10 + (unsigned)(*text++ - '0');
    }
    return value;
}

__attribute__((noreturn)) static void quit(int status)
{
    __asm__ volatile("syscall" : : "a"(__NR_exit), "D"(status) : "rcx", "r11", "memory");
    __builtin_unreachable();
}

/* What the kernel puts on a new program's stack: argc, then argv. */
__attribute__((noreturn, used)) static void start(long *stack)
{
    char **argv = (char **)(stack + 1);

    if (stack[0] != 3) {
        quit(1);
    }
    __asm__ volatile("xchg %%bx, %%bx" : : "a"(number(argv[1])), "c"(number(argv[2])) : "memory");
    quit(0);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
