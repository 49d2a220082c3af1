/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Some bytes of code outside IA-32e mode, which an exception ends; legacy.c, legacy.asm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* As the descriptors of the code and its data are, a case's `code`, `data` and `task` being 0. In
 * real-address mode limits are 4 GiB, too. */

/* In protected mode without paging or with PAE paging, in virtual-8086 mode, with CPL 3, and in
 * real-address mode. */
enum legacy_mode { PROTECTED, REAL, PAE, V86, USER, LEGACY_MODES };

/* What differs from mode to mode is set by legacy_execute(). */
struct legacy_case {
    const char *name;
    uint8_t modes;     /* a bit for each in which it runs */
    uint8_t tried[24]; /* the code */
    /* EAX is a selector of the data, EBX where the PDPTEs are, EDI a page below 64 KiB. */
    uint32_t ecx, ebp;
    uint32_t eip, eflags;      /* where the code begins, 0: in its page; flags that are set */
    bool flat;                 /* EIP is the linear address, as in 64-bit mode */
    uint32_t task_gates;       /* a bit for each vector below 32 whose handler is another task */
    uint64_t code, data, task; /* XORed to the descriptors of code, data and the TSS */
};

#define LEGACY_TASK 0x40 /* the selector of another task */

/* What came of it: the exception with its error code (all ones: none), and the registers then. */
struct legacy_result {
    uint32_t vector, error_code, eip, cs, eflags;
    uint32_t edi, ecx;
};

struct legacy_result legacy_execute(const struct legacy_case *c, enum legacy_mode mode);
