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
%define ALL_REGISTERS rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
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
    LOAD_EACH probe_in, ALL_REGISTERS
%endmacro

%macro KEEP_ALL 0
    STORE_EACH probe_out, ALL_REGISTERS
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
