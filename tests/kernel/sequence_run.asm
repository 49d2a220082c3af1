; SPDX-License-Identifier: BSD-2-Clause
;
; Events of the fuzzer of sequences: all 256 vectors lead to C, which notes the event and says
; whether the sequence goes on; else fuzz_run.asm ends it as an operation's.
; SDM Vol. 3, "Interrupt and Exception Handling in 64-bit Mode".

bits 64
default rel

%include "registers.inc"

extern fuzz_common, sequence_event

%define PUSHES_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21)

section .text

%assign v 0
%rep 256
align 16
sequence_vector_%+v:
%if !PUSHES_ERROR_CODE(v)
    push 0
%endif
    push v
    jmp sequence_common
%assign v v+1
%endrep

global sequence_stubs
sequence_stubs equ sequence_vector_0

sequence_common:
    PUSH_REGISTERS
    cld
    mov rdi, rsp
    mov rbp, rsp
    and rsp, -16
    call sequence_event
    mov rsp, rbp
    test al, al
    jz .end
    POP_REGISTERS
    add rsp, 16
    iretq
.end:
    POP_REGISTERS
    jmp fuzz_common

section .note.GNU-stack noalloc noexec nowrite progbits
