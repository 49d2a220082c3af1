/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `wrap`: an instruction that exits, in the last bytes below 4 GiB of a 32-bit code segment. Behind
 * it EIP is 0, for VMX too, which checks the upper half of RIP at entries. SDM Vol. 3, "Checks on
 * Guest RIP, RFLAGS, and SSP"; Vol. 1, "Instruction Pointer".
 */
#include "kernel.h"

#include <string.h>

#include "fuzz.h"
#include "layout.h"

#define GDT_CODE_32 0x00cf9b000000ffffULL
#define SELECTOR_32 8 /* its place in the GDT is free */
#define PTE_FLAGS (PTE_P | PTE_RW)
#define DIRECTORY_4TH_GIB 3
#define OFFSET_LAST_2 (PAGE_SIZE - 2)
#define EIP_LAST_2 0xfffffffeU

static uint64_t last_2m[TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint8_t last_page[PAGE_SIZE] __attribute__((aligned(4096)));
static uint64_t stack_before;

/* Where EIP wraps to: back to 64-bit mode, and from there to the end of far_return(). */
struct landing {
    uint8_t jump[16]; /* JMP FAR CODE_SELECTOR:16 */
    uint8_t move[2];  /* MOV RAX, */
    uint64_t back;
    uint8_t go[2]; /* JMP RAX */
} __attribute__((packed));

static void far_return(struct landing *landing)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, %1\n\t"
                     "push %%rbp\n\t"
                     "mov %%rsp, %0\n\t"
                     "push %2\n\t"
                     "mov %3, %%eax\n\t"
                     "push %%rax\n\t"
                     "xor %%eax, %%eax\n\t"
                     "lretq\n"
                     "1: mov %0, %%rsp\n\t"
                     "pop %%rbp"
                     : "+m"(stack_before), "=m"(landing->back)
                     : "i"(SELECTOR_32), "i"(EIP_LAST_2)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
                       "r13", "r14", "r15", "memory");
}

static uint64_t *table_at(uint64_t entry) { return (uint64_t *)(entry & PTE_ADDRESS); }

void test_wrap(const struct job *job)
{
    static const struct landing code = {
        .jump = {0xea, 16, 0, 0, 0, CODE_SELECTOR, 0}, .move = {0x48, 0xb8}, .go = {0xff, 0xe0}};
    struct landing *low = NULL, before;
    struct table_register gdtr;
    uint64_t *directory = table_at(table_at(table_at(read_cr3())[0])[DIRECTORY_4TH_GIB]);
    uint64_t entry_before = directory[TABLE_ENTRIES - 1];

    __asm__("" : "+r"(low)); /* address 0 is memory like any other */
    __asm__ volatile("sgdt %0" : "=m"(gdtr));
    ((uint64_t *)gdtr.base)[SELECTOR_32 / 8] = GDT_CODE_32;
    last_page[OFFSET_LAST_2] = 0x0f; /* CPUID */
    last_page[OFFSET_LAST_2 + 1] = 0xa2;
    last_2m[TABLE_ENTRIES - 1] = fuzz_physical(last_page) | PTE_FLAGS;
    memcpy(&before, low, sizeof(before));
    memcpy(low, &code, sizeof(code));
    directory[TABLE_ENTRIES - 1] = fuzz_physical(last_2m) | PTE_FLAGS;
    write_cr3(read_cr3());
    far_return(low);
    directory[TABLE_ENTRIES - 1] = entry_before;
    write_cr3(read_cr3());
    memcpy(low, &before, sizeof(before));
    tap_result(true, job->name, NULL);
}
