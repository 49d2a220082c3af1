; SPDX-License-Identifier: BSD-2-Clause
;
; Entry of root-mode exceptions, and the instructions that may fault on the guest's behalf.
; No path here ends in IRET: an IRET would unblock NMIs while the guest's NMI handler runs
; (SDM Vol. 3, "Handling Multiple NMIs"). A caught fault jumps to its fix-up instead.

bits 64
default rel

section .text

%include "registers.inc"

extern root_exception

; Vectors for which the processor pushes an error code (SDM Vol. 3, "Error Code").
%define PUSHES_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21)

%assign v 0
%rep 32
align 16
exception_%+v:
%if !PUSHES_ERROR_CODE(v)
    push 0
%endif
    push v
    jmp exception_common
%assign v v+1
%endrep

; 32 stubs, 16 bytes apart: descriptors.c computes their addresses.
global exception_stubs
exception_stubs equ exception_0

exception_common:
    PUSH_ALL rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    cld
    mov rdi, rsp
    mov rbx, rsp                ; survives the call
    and rsp, -16
    call root_exception         ; gives the fix-up's address, or does not return
    ; The callee-saved registers of the interrupted function, its stack, and on to the fix-up.
    mov rcx, [rbx + 20 * 8]     ; exception_frame.rsp
    mov r15, [rbx + 0 * 8]
    mov r14, [rbx + 1 * 8]
    mov r13, [rbx + 2 * 8]
    mov r12, [rbx + 3 * 8]
    mov rbp, [rbx + 8 * 8]
    mov rbx, [rbx + 13 * 8]
    mov rsp, rcx
    jmp rax

; bool rdmsr_safe(uint32_t index, uint64_t *value)
global rdmsr_safe
rdmsr_safe:
    mov ecx, edi
global rdmsr_may_fault
rdmsr_may_fault:
    rdmsr
    shl rdx, 32
    or rax, rdx
    mov [rsi], rax
    mov eax, 1
    ret

; bool rdpmc_safe(uint32_t index, uint64_t *value)
global rdpmc_safe
rdpmc_safe:
    mov ecx, edi
global rdpmc_may_fault
rdpmc_may_fault:
    rdpmc
    shl rdx, 32
    or rax, rdx
    mov [rsi], rax
    mov eax, 1
    ret

; bool wrmsr_safe(uint32_t index, uint64_t value)
global wrmsr_safe
wrmsr_safe:
    mov ecx, edi
    mov eax, esi
    mov rdx, rsi
    shr rdx, 32
global wrmsr_may_fault
wrmsr_may_fault:
    wrmsr
    mov eax, 1
    ret

; bool xsetbv_safe(uint32_t index, uint64_t value)
global xsetbv_safe
xsetbv_safe:
    mov ecx, edi
    mov eax, esi
    mov rdx, rsi
    shr rdx, 32
global xsetbv_may_fault
xsetbv_may_fault:
    xsetbv
    mov eax, 1
    ret

; Where all four go after a fault.
global safe_access_faulted
safe_access_faulted:
    xor eax, eax
    ret

section .note.GNU-stack noalloc noexec nowrite progbits
