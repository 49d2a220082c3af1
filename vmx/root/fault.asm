; SPDX-License-Identifier: BSD-2-Clause
;
; Entry of root-mode exceptions, and the instructions that may fault on the guest's behalf.
; No path here ends in IRET, because an IRET would unblock NMIs. An NMI that was sent again for the
; guest would then arrive here instead of in the guest (SDM Vol. 3, "Handling Multiple NMIs"). After
; a caught fault, the handler jumps to the fix-up instead.

bits 64
default rel

section .text

%include "vmx/root/exceptions.inc"
%include "vmx/root/registers.inc"

extern handle_root_exception

; descriptors.c computes the stubs' addresses.
    STUBS exception, 0, 32, exception_common

exception_common:
    PUSH_ALL rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    cld
    mov rdi, rsp
    mov rbx, rsp                ; RBX survives the call
    and rsp, -16
    call handle_root_exception         ; returns the fix-up's address, or does not return
    ; Restore the callee-saved registers and the stack of the interrupted function. Then go on at
    ; the fix-up.
    mov rcx, [rbx + 20 * 8]     ; exception_frame.rsp
    mov r15, [rbx + 0 * 8]
    mov r14, [rbx + 1 * 8]
    mov r13, [rbx + 2 * 8]
    mov r12, [rbx + 3 * 8]
    mov rbp, [rbx + 8 * 8]
    mov rbx, [rbx + 13 * 8]
    mov rsp, rcx
    jmp rax

; bool rdmsr_safe(uint32_t index, uint64_t *value), bool rdpmc_safe(...)
%macro SAFE_READ 1
global %1_safe, %1_may_fault
%1_safe:
    mov ecx, edi
%1_may_fault:
    %1
    shl rdx, 32
    or rax, rdx
    mov [rsi], rax
    mov eax, 1
    ret
%endmacro

; bool wrmsr_safe(uint32_t index, uint64_t value), bool xsetbv_safe(...)
%macro SAFE_WRITE 1
global %1_safe, %1_may_fault
%1_safe:
    mov ecx, edi
    mov eax, esi
    mov rdx, rsi
    shr rdx, 32
%1_may_fault:
    %1
    mov eax, 1
    ret
%endmacro

    SAFE_READ rdmsr
    SAFE_READ rdpmc
    SAFE_WRITE wrmsr
    SAFE_WRITE xsetbv

; All four functions continue here after a fault.
global safe_access_faulted
safe_access_faulted:
    xor eax, eax
    ret

section .note.GNU-stack noalloc noexec nowrite progbits
