; SPDX-License-Identifier: BSD-2-Clause
;
; Entry into a second guest and back to the caller, and that guest's whole code.
; SDM Vol. 3, "VM Entries".

bits 64
default rel

%include "offsets.inc"
%include "tests/kernel/registers.inc"

%define VMCS_HOST_RSP 0x6c14
%define VMCS_HOST_RIP 0x6c16

section .text

; bool other_guest_run(uint32_t registers[3]): EAX, ECX and EDX in and out. False: no entry.
global other_guest_run
other_guest_run:
    PUSH_CALLEE_SAVED
    push rdi
    mov rax, VMCS_HOST_RSP
    vmwrite rax, rsp
    lea rcx, [.back]
    mov rax, VMCS_HOST_RIP
    vmwrite rax, rcx
    mov eax, [rdi]
    mov ecx, [rdi + 4]
    mov edx, [rdi + 8]
    vmlaunch
    pop rdi
    xor eax, eax
    jmp .out
.back:
    pop rdi
    mov [rdi], eax
    mov [rdi + 4], ecx
    mov [rdi + 8], edx
    mov eax, 1
.out:
    POP_CALLEE_SAVED
    ret

; The second guest, in 32-bit protected mode without paging.
section .rodata
bits 32
global other_guest_code, other_guest_code_end
other_guest_code:
    wrmsr
    rdmsr
    vmcall
other_guest_code_end:

section .note.GNU-stack noalloc noexec nowrite progbits
