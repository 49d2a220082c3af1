/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exceptions in root mode: the few instructions that may fault on the guest's behalf, and the end
 * of everything else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* RDMSR, WRMSR, RDPMC and XSETBV of what the guest chose. False: the instruction raised #GP, and
 * the guest is to get it. The fault is left without an IRET, so NMI blocking stays as it was. */
bool rdmsr_safe(uint32_t index, uint64_t *value);
bool wrmsr_safe(uint32_t index, uint64_t value);
bool rdpmc_safe(uint32_t index, uint64_t *value);
bool xsetbv_safe(uint32_t index, uint64_t value);

/* Logs what the machine-check MSRs have. SDM Vol. 3, "Machine-Check Architecture". */
void machine_check_report(void);

/* Prints the reason and the log's tail, and stops the machine for good; of a processor that is
 * being started the reason alone, and it stops alone. */
_Noreturn void hypervisor_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What fault.asm leaves on the stack, lowest address first. */
struct exception_frame {
    uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rbp, rdi, rsi, rdx, rcx, rbx, rax;
    uint64_t vector, error_code;       /* the latter 0 where the exception has none */
    uint64_t rip, cs, rflags, rsp, ss; /* pushed by the processor */
};
