; SPDX-License-Identifier: BSD-2-Clause
;
; Handlers of the emulator's tests: all vectors lead to C. SDM Vol. 3, "Interrupt and Exception
; Handling in 64-bit Mode".

bits 64
default rel

%include "registers.inc"

extern emulator_event

section .text

    STUBS emulator, 0, 256, emulator_common

; A VM exit inside a handler leaves no register but RSP: the frame's address is on the stack, too.
emulator_common:
    PUSH_REGISTERS
    cld
    mov rdi, rsp
    and rsp, -16
    push rdi
    push rdi
    call emulator_event
    pop rsp
    END_EVENT

section .note.GNU-stack noalloc noexec nowrite progbits
