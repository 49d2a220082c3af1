/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loops around one instruction. All have the same frame, so that the difference of two is what is
 * between: natively, an instruction that is alone in its loop costs exactly 1 more than none.
 * SDM Vol. 2, "RDTSC" (LFENCE before it and after); Vol. 3, "Time-Stamp Counter".
 */
#include "internal.h"

/* Offsets of struct loop's fields. */
_Static_assert(offsetof(struct loop, rax) == 0 && offsetof(struct loop, rbx) == 8 &&
                   offsetof(struct loop, rcx) == 16 && offsetof(struct loop, rdx) == 24 &&
                   offsetof(struct loop, operations) == 32 && offsetof(struct loop, begin) == 40 &&
                   offsetof(struct loop, end) == 48,
               "the loops know these");

#define STRING(text) #text
#define STRINGIFY(value) STRING(value)
#define STAMP(offset)                                                                              \
    TSC_STAMP                                                                                      \
    "mov %%eax, " offset "(%%rdi)\n\t"                                                             \
    "mov %%edx, 4+" offset "(%%rdi)\n\t"

/* R8 and R9 keep what an instruction changes. The function is aligned so that every loop has the
 * same number of filling NOPs before it. */
#define DEFINE_LOOP(name, body)                                                                    \
    __attribute__((aligned(64))) void loop_##name(struct loop *loop)                               \
    {                                                                                              \
        __asm__ volatile(STAMP("40") "mov (%%rdi), %%rax\n\t"                                      \
                                     "mov 8(%%rdi), %%rbx\n\t"                                     \
                                     "mov 16(%%rdi), %%rcx\n\t"                                    \
                                     "mov 24(%%rdi), %%rdx\n\t"                                    \
                                     "mov 32(%%rdi), %%rsi\n\t"                                    \
                                     "mov %%rax, %%r8\n\t"                                         \
                                     "mov %%rbx, %%r9\n\t"                                         \
                                     ".p2align 6\n"                                                \
                                     "1:\n\t" body "dec %%rsi\n\t"                                 \
                                     "jnz 1b\n\t" STAMP("48")                                      \
                         :                                                                         \
                         : "D"(loop)                                                               \
                         : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory",  \
                           "cc");                                                                  \
    }

#define SET_RAX "mov %%r8, %%rax\n\t"
#define SET_RBX "mov %%r9, %%rbx\n\t"

DEFINE_LOOP(empty, "")
DEFINE_LOOP(rdmsr, "rdmsr\n\t")
DEFINE_LOOP(wrmsr, "wrmsr\n\t")
DEFINE_LOOP(empty_xor, "xor %%r9, %%rax\n\t")
DEFINE_LOOP(wrmsr_xor, "xor %%r9, %%rax\n\t"
                       "wrmsr\n\t")
DEFINE_LOOP(rdpmc, "rdpmc\n\t")
/* FROM, TO and INFO of each place, and back to the first. */
DEFINE_LOOP(records, "mov $" STRINGIFY(LBR_PLACES) ", %%r11d\n"
                                                   "2:\n\t"
                                                   "rdmsr\n\t"
                                                   "add %%r9d, %%ecx\n\t"
                                                   "rdmsr\n\t"
                                                   "add %%r8d, %%ecx\n\t"
                                                   "rdmsr\n\t"
                                                   "sub %%r8d, %%ecx\n\t"
                                                   "sub %%r9d, %%ecx\n\t"
                                                   "inc %%ecx\n\t"
                                                   "dec %%r11d\n\t"
                                                   "jnz 2b\n\t"
                                                   "sub $" STRINGIFY(LBR_PLACES) ", %%ecx\n\t")
DEFINE_LOOP(store, "mov %%eax, (%%rdx)\n\t")
DEFINE_LOOP(in_8, "inb %%dx, %%al\n\t")
DEFINE_LOOP(in_16, "inw %%dx, %%ax\n\t")
DEFINE_LOOP(in_32, "inl %%dx, %%eax\n\t")
DEFINE_LOOP(out_8, "outb %%al, %%dx\n\t")
DEFINE_LOOP(out_16, "outw %%ax, %%dx\n\t")
DEFINE_LOOP(out_32, "outl %%eax, %%dx\n\t")
DEFINE_LOOP(empty_rax, SET_RAX)
DEFINE_LOOP(cpuid, SET_RAX "cpuid\n\t")
DEFINE_LOOP(vmcall, SET_RAX "vmcall\n\t")
DEFINE_LOOP(vmcall_rbx, SET_RAX SET_RBX "vmcall\n\t")
