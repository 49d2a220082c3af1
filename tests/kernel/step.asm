; SPDX-License-Identifier: BSD-2-Clause
;
; Single steps of branches alone, through instructions that exit: the work of test_step.c and its
; handler of #DB.

bits 64
default rel

%include "registers.inc"

extern step_note

%define VECTOR_DB 1
%define RFLAGS_TF 0x100
%define ROUNDS 3

section .text

    BEGIN_EVENT step_debug, VECTOR_DB
    CALL_WITH_FRAME step_note
    END_EVENT

%macro CPUID_0 0
    xor eax, eax
    xor ecx, ecx
    cpuid
%endmacro

; void step_branches(void): with BTF set before it, and again by each #DB. Only the taken branches
; have one, where they go: step_places.
global step_branches
step_branches:
    push rbx
    pushfq
    or qword [rsp], RFLAGS_TF
    popfq
    nop
    CPUID_0
    test eax, eax
    jz .never                   ; leaf 0 gives the highest leaf
    jmp .jumped
.never:
    ud2
.jumped:
    CPUID_0
    mov eax, ss
    mov ss, eax
    cpuid                       ; an exit in the shadow of MOV SS
    call .called
.returned:
    mov esi, ROUNDS
.loop:
    CPUID_0
    dec esi
    jnz .loop
    pushfq
    and qword [rsp], ~RFLAGS_TF
    popfq
    pop rbx
    ret
.called:
    CPUID_0
    ret

section .rodata
global step_places, step_places_end
align 8
step_places: dq step_branches.jumped, step_branches.called, step_branches.returned
    times ROUNDS - 1 dq step_branches.loop
step_places_end:

section .note.GNU-stack noalloc noexec nowrite progbits
