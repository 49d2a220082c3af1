; SPDX-License-Identifier: BSD-2-Clause
;
; test_instruction.c's: an IRET to the code under test, with RFLAGS and the registers that it wants,
; and the handlers of what comes meanwhile. SDM Vol. 3, "Error Code".

bits 64
default rel

%include "registers.inc"

extern instruction_event

%define PUSHES_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21)
%define CODE_SELECTOR 0x10
%define DATA_SELECTOR 0x18
%define STUB_BYTES 16

section .text

; One for each exception, and one more for all other vectors that are used.
%assign v 0
%rep 34
align STUB_BYTES
stub_%+v:
%if !PUSHES_ERROR_CODE(v)
    push 0
%endif
    push v
    jmp every_event
%assign v v+1
%endrep

global instruction_stubs
instruction_stubs equ stub_0

every_event:
    PUSH_REGISTERS
    cld
    mov rdi, rsp
    mov rbp, rsp
    and rsp, -16
    call instruction_event
    mov rsp, rbp
    POP_REGISTERS
    add rsp, 16
    iretq

; void instruction_run(const struct registers *in): RIP, RFLAGS, RAX, RCX, RDX, RBX, R8, R9.
global instruction_run
instruction_run:
    PUSH_CALLEE_SAVED
    mov [caller_stack], rsp
    push DATA_SELECTOR
    push qword [caller_stack]
    push qword [rdi + 8]
    push CODE_SELECTOR
    push qword [rdi]
    mov rax, [rdi + 16]
    mov rcx, [rdi + 24]
    mov rdx, [rdi + 32]
    mov rbx, [rdi + 40]
    mov r8, [rdi + 48]
    mov r9, [rdi + 56]
    iretq

; The code's end: INT, whose handler goes on here.
global instruction_back
instruction_back:
    mov rsp, [caller_stack]
    POP_CALLEE_SAVED
    ret

section .bss
alignb 8
caller_stack: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
