/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exceptions in root mode: the few instructions that may fault on the guest's behalf, and the end
 * of the machine after any other fault.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* RDMSR, WRMSR, RDPMC and XSETBV with operands that the guest chose. False: the instruction raised
 * #GP. The caller then usually gives the guest a #GP. The fault ends without an IRET, so NMI
 * blocking stays as it was. */
bool rdmsr_safe(uint32_t index, uint64_t *value);
bool wrmsr_safe(uint32_t index, uint64_t value);
bool rdpmc_safe(uint32_t index, uint64_t *value);
bool xsetbv_safe(uint32_t index, uint64_t value);

/* Logs the contents of the machine-check MSRs. SDM Vol. 3, "Machine-Check Architecture". */
void report_machine_check(void);

/* Prints the reason and the log's tail, and stops the machine for good. On a processor that is
 * being started, prints only the reason, and stops only that processor. */
_Noreturn void hypervisor_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The stack when fault.asm calls handle_root_exception(), lowest address first. */
struct exception_frame {
    /* Pushed by exception_common. */
    uint64_t r15;
    uint64_t r14;
    uint64_t r13;
    uint64_t r12;
    uint64_t r11;
    uint64_t r10;
    uint64_t r9;
    uint64_t r8;
    uint64_t rbp;
    uint64_t rdi;
    uint64_t rsi;
    uint64_t rdx;
    uint64_t rcx;
    uint64_t rbx;
    uint64_t rax;
    uint64_t vector;     /* pushed by the exception's stub */
    uint64_t error_code; /* 0 if the exception has none */
    /* Pushed by the processor. */
    uint64_t rip;
    uint64_t cs;
    uint64_t rflags;
    uint64_t rsp;
    uint64_t ss;
};
