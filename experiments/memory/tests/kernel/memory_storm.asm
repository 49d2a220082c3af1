; SPDX-License-Identifier: BSD-2-Clause
;
; Handlers of test_memory_storm.c. The processor's frame and these pushes go to traced memory, each
; one access that is known; the work is done on a stack that is not traced.

bits 64
default rel

%include "registers.inc"

extern storm_handle

%define P_EVENT_STACKS 32       ; in struct processor, smp.h
%define VECTOR_NMI 2
%define VECTOR_TIMER 0x41       ; as test_memory_storm.c has them
%define VECTOR_IPI 0x52

section .text

%macro HANDLER 3                ; name, vector, number of its stack
    BEGIN_EVENT %1, %2
    cld
    mov rdi, rsp
    mov rbp, rsp
    mov rsp, [gs:P_EVENT_STACKS + 8 * %3]
    call storm_handle
    mov rsp, rbp
    END_EVENT
%endmacro

    HANDLER storm_timer, VECTOR_TIMER, 0
    HANDLER storm_ipi, VECTOR_IPI, 0
    HANDLER storm_nmi, VECTOR_NMI, 1

section .note.GNU-stack noalloc noexec nowrite progbits
