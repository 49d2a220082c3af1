; SPDX-License-Identifier: BSD-2-Clause
;
; Entry of the root-mode NMI handler: gate 2 of the IDT, on its own stack by IST 1
; (vmx/root/descriptors.c). The handler returns in one of two ways. After an NMI from a host source,
; IRET unblocks NMIs. After an NMI for the guest, which is pending again, a return without IRET
; leaves NMIs blocked.
; SDM Vol. 3, "Handling Multiple NMIs"; "Interrupt Stack Table".

bits 64
default rel

section .text

%include "offsets.inc"
%include "vmx/root/registers.inc"

extern nmi_root

; Offset of the processor's frame (struct nmi_frame) from RSP, once the nine registers are saved.
%define FRAME 9 * 8
%define FRAME_RIP FRAME + 0
%define FRAME_RFLAGS FRAME + 16
%define FRAME_RSP FRAME + 24

global nmi_entry
nmi_entry:
    PUSH_ALL CALLER_SAVED       ; RAX first, so that it has the highest address of the nine
    cld
    ; The processor aligned RSP to 16 and pushed 5 words of 8 bytes. This code pushed 9 words, so
    ; RSP is aligned again.
    lea rdi, [rsp + FRAME]
    call nmi_root
    cmp eax, NMI_RETURN_BLOCKED
    je return_blocked
    cmp eax, NMI_RETURN_COUNTING
    jne .restore
    ; The host's counter starts here, after all branches of this handler except the IRET.
    mov ecx, IA32_PERF_GLOBAL_CTRL
    mov eax, HOST_GLOBAL_CTRL
    xor edx, edx
    wrmsr
.restore:
    POP_ALL CALLER_SAVED
    iretq

; Returns without IRET: stores RIP, RFLAGS and RAX below the interrupted stack pointer (root-mode
; code is built without a red zone) and pops them from there. CS and SS are the same in all of root
; mode.
return_blocked:
    mov rax, [rsp + FRAME_RSP]
    mov rcx, [rsp + FRAME_RIP]
    mov [rax - 8], rcx
    mov rcx, [rsp + FRAME_RFLAGS]
    mov [rax - 16], rcx
    mov rcx, [rsp + 8 * 8]      ; the interrupted RAX
    mov [rax - 24], rcx
    mov [rsp + 8 * 8], rax      ; RAX's slot now holds the interrupted RSP
    POP_ALL CALLER_SAVED
    lea rsp, [rax - 24]
    pop rax
    popfq
    ret

section .note.GNU-stack noalloc noexec nowrite progbits
