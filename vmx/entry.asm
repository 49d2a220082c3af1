; SPDX-License-Identifier: BSD-2-Clause
;
; The way into and out of the guest. Between an exit and VMRESUME no IRET is executed and NMIs
; need no check: an NMI that root mode takes is made pending again in hardware by nmi/nmi.c, from
; any instruction here on, so the last instruction before VMRESUME is as safe as the first.
; SDM Vol. 3, "VM Entries", "VM Exits".

bits 64
default rel

%include "offsets.inc"

extern vmx_exit
extern pmu_reload_global_ctrl
extern vmx_exit_timed
extern vmx_entry_failed

%macro SAVE_GUEST_REGISTERS 0
    mov [gs:CPU_RAX], rax
    mov [gs:CPU_RCX], rcx
    mov [gs:CPU_RDX], rdx
    mov [gs:CPU_RBX], rbx
    mov [gs:CPU_RBP], rbp
    mov [gs:CPU_RSI], rsi
    mov [gs:CPU_RDI], rdi
    mov [gs:CPU_R8], r8
    mov [gs:CPU_R9], r9
    mov [gs:CPU_R10], r10
    mov [gs:CPU_R11], r11
    mov [gs:CPU_R12], r12
    mov [gs:CPU_R13], r13
    mov [gs:CPU_R14], r14
    mov [gs:CPU_R15], r15
%endmacro

%macro LOAD_GUEST_REGISTERS 0
    mov rax, [gs:CPU_RAX]
    mov rcx, [gs:CPU_RCX]
    mov rdx, [gs:CPU_RDX]
    mov rbx, [gs:CPU_RBX]
    mov rbp, [gs:CPU_RBP]
    mov rsi, [gs:CPU_RSI]
    mov rdi, [gs:CPU_RDI]
    mov r8, [gs:CPU_R8]
    mov r9, [gs:CPU_R9]
    mov r10, [gs:CPU_R10]
    mov r11, [gs:CPU_R11]
    mov r12, [gs:CPU_R12]
    mov r13, [gs:CPU_R13]
    mov r14, [gs:CPU_R14]
    mov r15, [gs:CPU_R15]
%endmacro

section .text

; HOST_RIP points to one of these two; HOST_RSP to the top of the root stack, 16-byte aligned.
align 16
global vmx_exit_entry
vmx_exit_entry:
    SAVE_GUEST_REGISTERS
    mov rdi, [gs:CPU_SELF]
    call vmx_exit
    mov rdi, [gs:CPU_SELF]
    call rax
    mov rax, [gs:CPU_GLOBAL_CTRL]
    cmp rax, [gs:CPU_GLOBAL_CTRL_LOADED]
    jne .reload
.resume:
    LOAD_GUEST_REGISTERS
    vmresume
    jmp entry_failed
.reload:                        ; the guest's GLOBAL_CTRL changed since the last entry
    mov rdi, [gs:CPU_SELF]
    call pmu_reload_global_ctrl
    jmp .resume

align 16
global vmx_exit_entry_timed
vmx_exit_entry_timed:
    SAVE_GUEST_REGISTERS
    mov rdi, [gs:CPU_SELF]
    call vmx_exit_timed
    LOAD_GUEST_REGISTERS
    vmresume
    jmp entry_failed

; void vmx_launch(void): the first entry.
global vmx_launch
vmx_launch:
    and rsp, -16
    LOAD_GUEST_REGISTERS
    vmlaunch

entry_failed:
    mov rdi, [gs:CPU_SELF]
    call vmx_entry_failed

section .note.GNU-stack noalloc noexec nowrite progbits
