; SPDX-License-Identifier: BSD-2-Clause
;
; Handlers of test_memory_event.c, which note where they came from: of #DB, and of an interrupt.
; And pieces of work, each with an access of the memory at RDI where it matters what comes when.

bits 64
default rel

%include "registers.inc"

extern memory_note

%define VECTOR_DB 1
%define VECTOR_NOTED 0x61       ; as test_memory_event.c has it
%define RFLAGS_TF 0x100

section .text

    BEGIN_EVENT memory_debug, VECTOR_DB
    CALL_WITH_FRAME memory_note
    END_EVENT

    BEGIN_EVENT memory_interrupt, VECTOR_NOTED
    CALL_WITH_FRAME memory_note
    END_EVENT

%macro SINGLE_STEP 0
    pushfq
    or qword [rsp], RFLAGS_TF
    popfq
%endmacro

; The handler clears TF when it comes from here.
%macro WORK 1+
align 16
global memory_%1
memory_%1:
%endmacro

%macro DONE 1
    nop
global memory_%1_end
memory_%1_end:
    nop
    ret
%endmacro

    WORK step
    SINGLE_STEP
    mov [rdi], rax
    mov [rdi], eax
    DONE step

    WORK plain
    mov [rdi], rax
global memory_plain_second
memory_plain_second:
    mov [rdi], eax
    DONE plain

    WORK shadow
    mov ecx, ss
    mov ss, ecx
    mov [rdi], rax
    DONE shadow

    WORK step_shadow
    mov ecx, ss
    SINGLE_STEP
    mov ss, ecx
    mov [rdi], rax
    DONE step_shadow

    WORK step_string
    mov ecx, 3
    SINGLE_STEP
    rep stosq
    DONE step_string

    WORK string
    mov ecx, 3
    rep stosq
    DONE string

    ; With an interrupt pending: it comes behind the store.
    WORK sti
    sti
    mov [rdi], rax
    nop
    cli
    DONE sti

    ; It comes before the store.
    WORK open
    sti
    nop
    mov [rdi], rax
    cli
    DONE open

    WORK sti_shadow
    mov ecx, ss
    sti
    mov ss, ecx
    mov [rdi], rax
    nop
    cli
    DONE sti_shadow

    ; Loads of SS by a read of RDI + 32: what they block comes behind the instruction after them.
    WORK load_ss
    mov ss, [rdi + 32]
    nop
    nop
    DONE load_ss

    WORK step_load_ss
    SINGLE_STEP
    mov ss, [rdi + 32]
    nop
    nop
    DONE step_load_ss

    WORK sti_load_ss
    sti
    mov ss, [rdi + 32]
    nop
    nop
    cli
    DONE sti_load_ss

    WORK load_ss_twice
    sti
    mov ss, [rdi + 32]
    mov ss, [rdi + 32]
    nop
    nop
    cli
    DONE load_ss_twice

    WORK sti_lss
    mov [rdi + 32 - 8], rsp
    sti
    o64 lss rsp, [rdi + 32 - 8]
    nop
    nop
    cli
    DONE sti_lss

; To be copied to where it may write itself: the MOV makes a NOP of the INT3 behind it.
global memory_self, memory_self_end
memory_self:
    mov byte [rel .next], 0x90
.next:
    int3
    ret
memory_self_end:

section .note.GNU-stack noalloc noexec nowrite progbits
