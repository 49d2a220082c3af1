; SPDX-License-Identifier: BSD-2-Clause
;
; The work of test_cet.c and its handlers: a shadow stack and indirect-branch tracking across exits
; and NMIs. SDM Vol. 1, "Control-flow Enforcement Technology (CET)".

bits 64
default rel

%include "registers.inc"

extern cet_ssp, cet_s_cet, cet_table, cet_send_nmis

%define IA32_S_CET 0x6a2
%define IA32_INTERRUPT_SSP_TABLE_ADDR 0x6a8
%define SH_STK_EN 1
%define ENDBR_EN 4
%define CET_VECTOR 0x63         ; test_cet.c has it, too

section .text

%macro SET_S_CET 1
    mov ecx, IA32_S_CET
    mov eax, %1
    xor edx, edx
    wrmsr
%endmacro

%macro READ_MSR 2
    mov ecx, %1
    rdmsr
    shl rdx, 32
    or rax, rdx
    mov [%2], rax
%endmacro

%macro KEEP_SSP 1
    rdsspq rax
    mov [cet_ssp + %1 * 8], rax
%endmacro

%macro CPUID_0 0
    xor eax, eax
    xor ecx, ecx
    cpuid
%endmacro

; void cet_work(void): CR4.CET is 1, IA32_PL0_SSP has a stack with a token.
global cet_work
cet_work:
    PUSH_CALLEE_SAVED
    sub rsp, 8
    SET_S_CET SH_STK_EN
    setssbsy
    KEEP_SSP 0
    int CET_VECTOR              ; which stays on this shadow stack
    call .inner
    KEEP_SSP 3
    call cet_send_nmis
    KEEP_SSP 4

    SET_S_CET SH_STK_EN | ENDBR_EN
    lea rax, [.marked]
    jmp rax
.marked:
    endbr64
    CPUID_0
    READ_MSR IA32_S_CET, cet_s_cet
    READ_MSR IA32_INTERRUPT_SSP_TABLE_ADDR, cet_table
    xor eax, eax
    lea rdx, [.unmarked]
    jmp rdx
.unmarked:
    cpuid                       ; #CP in place of its exit; then it is executed again
    KEEP_SSP 5
    SET_S_CET 0
    add rsp, 8
    POP_CALLEE_SAVED
    ret

.inner:
    KEEP_SSP 1
    CPUID_0
    KEEP_SSP 2
    ret

align 16
global cet_interrupt
cet_interrupt:
    endbr64
    iretq

; Counts, with an exit on the NMI's own shadow stack.
align 16
global cet_nmi
cet_nmi:
    endbr64
    push rax
    push rbx
    push rcx
    push rdx
    CPUID_0
    rdsspq rax
    mov [cet_nmi_ssp], rax
    inc qword [cet_nmis]
    pop rdx
    pop rcx
    pop rbx
    pop rax
    iretq

; ENDBR64 ends the wait for one: what has come here goes on where it was.
align 16
global cet_control_protection
cet_control_protection:
    endbr64
    push rax
    inc qword [cet_faults]
    mov rax, [rsp + 8]
    mov [cet_error], rax
    mov rax, [rsp + 16]
    mov [cet_fault_rip], rax
    pop rax
    add rsp, 8
    iretq

section .rodata
global cet_unmarked
align 8
cet_unmarked: dq cet_work.unmarked

section .bss
global cet_nmis, cet_nmi_ssp, cet_faults, cet_error, cet_fault_rip
alignb 8
cet_nmis: resq 1
cet_nmi_ssp: resq 1
cet_faults: resq 1
cet_error: resq 1
cet_fault_rip: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
