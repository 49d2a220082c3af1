; SPDX-License-Identifier: BSD-2-Clause
;
; test_instruction.c's: an IRET to the code under test, with RFLAGS and the registers that it wants,
; and the handlers of what comes meanwhile. SDM Vol. 3, "Error Code".

bits 64
default rel

%include "registers.inc"

extern instruction_event

%define CODE_SELECTOR 0x10
%define DATA_SELECTOR 0x18

section .text

; One for each exception, and one more for all other vectors that are used.
    STUBS instruction, 0, 34, every_event

every_event:
    HANDLE instruction_event

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
    LOAD_EACH rdi + 16, rax, rcx, rdx, rbx, r8, r9
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
