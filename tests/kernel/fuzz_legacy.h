/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One run of code in protected mode without paging or in virtual-8086 mode, up to the first event.
 * SDM Vol. 3, "Switching Out of IA-32e Mode Operation", "Virtual-8086 Mode".
 */
#pragma once

#include "fuzz.h"
#include "kernel.h"

#define LEGACY_STUBS 256
#define LEGACY_STUB 8
#define LEGACY_CODE_BYTES 64

enum { EAX = 7, ECX = 6, EDX = 5, EBX = 4, ESP = 3, EBP = 2, ESI = 1, EDI = 0 }; /* PUSHAD */

/* As fuzz_legacy.asm has it. */
struct legacy {
    uint8_t stub[LEGACY_STUBS][LEGACY_STUB];
    uint32_t in[8];
    uint32_t frame[9]; /* EIP, CS, EFLAGS; ESP, SS, ES, DS, FS, GS for virtual-8086 mode */
    uint32_t clear_lme;
    uint32_t out[18], vector, cr0, cr4;
    uint32_t own[3];
    struct table_register gdt_pointer, idt_pointer;
    uint64_t gdt[8]; /* [5]: the TSS; [6]: free */
    uint32_t tss[26];
    uint8_t code[LEGACY_CODE_BYTES];
    uint8_t stack[0x1000 - LEGACY_STUBS * LEGACY_STUB - 8 * 4 - 9 * 4 - 4 - 18 * 4 - 3 * 4 - 3 * 4 -
                  20 - 64 - 104 - LEGACY_CODE_BYTES];
    uint64_t idt[LEGACY_STUBS];
} __attribute__((packed, aligned(4096)));
_Static_assert(offsetof(struct legacy, idt) == 0x1000, "fuzz_legacy.asm: STACK_TOP");
extern struct legacy legacy;

/* The first event. */
struct legacy_event {
    uint32_t vector, error, eip, cs, eflags, esp;
};

/* Descriptors, a TSS and gates of CPL 0 for all vectors. */
void legacy_make_tables(void);
/* A descriptor's base. */
uint64_t legacy_base(uint64_t base);
/* Runs from `in` and `frame` on. The caller restores GDT, TR and data segments. */
struct legacy_event legacy_run(void);
