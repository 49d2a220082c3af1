; SPDX-License-Identifier: BSD-2-Clause
;
; The probes: every register and flag loaded, one instruction, every register and flag kept. The
; stack pointer is part of the pattern: handlers have stacks of their own.

bits 64
default rel

%include "registers.inc"

extern fault_resume

%define IA32_PERF_GLOBAL_CTRL 0x38f
%define DATA_SELECTOR 0x18
%define RFLAGS_FIXED 2
%define RFLAGS_OFFSET 16 * 8
; Instructions of LOAD_REGISTERS; the rest up to PMI_BEFORE (probe.h) is filled.
%define LOADS 16
%define PMI_BEFORE 200
%define PMI_BEHIND 256

%macro SAVE_CALLER 0
    PUSH_CALLEE_SAVED
    mov [caller_rsp], rsp
%endmacro

%macro LOAD_FLAGS 0
    push qword [probe_in + RFLAGS_OFFSET]
    popfq
%endmacro

%macro LOAD_REGISTERS 0
    mov rax, [probe_in + 0 * 8]
    mov rcx, [probe_in + 1 * 8]
    mov rdx, [probe_in + 2 * 8]
    mov rbx, [probe_in + 3 * 8]
    mov rsp, [probe_in + 4 * 8]
    mov rbp, [probe_in + 5 * 8]
    mov rsi, [probe_in + 6 * 8]
    mov rdi, [probe_in + 7 * 8]
    mov r8, [probe_in + 8 * 8]
    mov r9, [probe_in + 9 * 8]
    mov r10, [probe_in + 10 * 8]
    mov r11, [probe_in + 11 * 8]
    mov r12, [probe_in + 12 * 8]
    mov r13, [probe_in + 13 * 8]
    mov r14, [probe_in + 14 * 8]
    mov r15, [probe_in + 15 * 8]
%endmacro

%macro KEEP_ALL 0
    mov [probe_out + 0 * 8], rax
    mov [probe_out + 1 * 8], rcx
    mov [probe_out + 2 * 8], rdx
    mov [probe_out + 3 * 8], rbx
    mov [probe_out + 4 * 8], rsp
    mov [probe_out + 5 * 8], rbp
    mov [probe_out + 6 * 8], rsi
    mov [probe_out + 7 * 8], rdi
    mov [probe_out + 8 * 8], r8
    mov [probe_out + 9 * 8], r9
    mov [probe_out + 10 * 8], r10
    mov [probe_out + 11 * 8], r11
    mov [probe_out + 12 * 8], r12
    mov [probe_out + 13 * 8], r13
    mov [probe_out + 14 * 8], r14
    mov [probe_out + 15 * 8], r15
    mov rsp, [caller_rsp]
    pushfq
    pop qword [probe_out + RFLAGS_OFFSET]
    push RFLAGS_FIXED
    popfq
%endmacro

%macro RETURN 0
    mov qword [fault_resume], 0
    POP_CALLEE_SAVED
    ret
%endmacro

; %1 name, %2 the instruction.
%macro PROBE 2
%1_probe:
    SAVE_CALLER
    mov rax, %1_after
    mov [fault_resume], rax
    LOAD_FLAGS
    LOAD_REGISTERS
    %2
%1_after:
    KEEP_ALL
    RETURN
%endmacro

section .text
    PROBE cpuid, {cpuid}
    PROBE vmcall, {vmcall}
    PROBE wrmsr, {wrmsr}
    PROBE wrmsr_fault, {wrmsr}
    PROBE ept, {mov rax, [rbx]}

%macro CPUID_STI 0
    sti
    cpuid
%endmacro
%macro CPUID_MOVSS 0
    mov ss, [data_selector]
    cpuid
%endmacro
    PROBE cpuid_sti, CPUID_STI
    PROBE cpuid_movss, CPUID_MOVSS

; void probe_run_counted(uint64_t global_ctrl)
global probe_run_counted
probe_run_counted:
    SAVE_CALLER
    LOAD_FLAGS
    mov ecx, IA32_PERF_GLOBAL_CTRL
    mov eax, edi
    mov rdx, rdi
    bswap rdx                   ; the high half without touching a flag
    bswap edx
    wrmsr
    times PMI_BEFORE - LOADS nop
    LOAD_REGISTERS
    cpuid
global probe_counted_after
probe_counted_after:
    times PMI_BEHIND nop
    KEEP_ALL
    RETURN

section .rodata
global probe_run, probe_after
align 8
probe_run: dq cpuid_probe, vmcall_probe, wrmsr_probe, wrmsr_fault_probe, ept_probe, \
    cpuid_sti_probe, cpuid_movss_probe
probe_after: dq cpuid_after, vmcall_after, wrmsr_after, wrmsr_fault_after, ept_after, \
    cpuid_sti_after, cpuid_movss_after
data_selector: dw DATA_SELECTOR

section .bss
global probe_in, probe_out
alignb 8
probe_in: resq 17
probe_out: resq 17
caller_rsp: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
