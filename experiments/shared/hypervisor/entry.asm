; SPDX-License-Identifier: BSD-2-Clause
;
; The ways into root mode and out of it while something is recorded: that of vmx/exit/entry.asm, with
; the record of an exit begun before the handler and ended behind it; and with memory_exit().

bits 64
default rel

%include "offsets.inc"
%include "vmx/root/registers.inc"
%include "vmx/exit/entry.inc"

extern trace_exit, memory_exit, entry_failed, verw_selector

; The fields are there on each processor: no VMREAD here can fail.
%macro HANDLE_TRACED 0
    rdtsc
    mov rcx, [gs:CPU_TRACE_RECORD]
    mov [rcx + RECORD_TSC], eax
    mov [rcx + RECORD_TSC + 4], edx
    mov edx, VMCS_GUEST_RIP
    vmread [rcx + RECORD_RIP], rdx
    mov edx, VMCS_GUEST_CR3
    vmread [rcx + RECORD_CR3], rdx ; its highest bytes are written anew by trace_exit()
    HANDLE trace_exit
    rdtsc
    mov rcx, [gs:CPU_TRACE_RECORD]
    sub eax, [rcx + RECORD_TSC]
    mov [rcx + RECORD_ROOT_TIME], eax
    add rcx, RECORD_BYTES
    cmp rcx, [gs:CPU_TRACE_END]
    jne %%more
    mov rcx, [gs:CPU_TRACE_FIRST]
%%more:
    mov [gs:CPU_TRACE_RECORD], rcx
    mov rcx, [gs:CPU_TRACE_RING]
    inc qword [rcx + RING_WRITTEN] ; behind the record: stores are seen in order
%endmacro

section .text

align 16
global trace_exit_entry
trace_exit_entry:
    SAVE_ALL EXIT_CHANGES
    HANDLE_TRACED
    LOAD_ALL EXIT_CHANGES
    vmresume
    jmp entry_failed

align 16
global trace_exit_entry_guarded
trace_exit_entry_guarded:
    GUARDED HANDLE_TRACED

WITH_ALL_GPRS trace_ept_violation
WITH_ALL_GPRS flow_cr_access

; Memory accesses. What most of these exits do needs the registers alone that a call may change.
align 16
global memory_exit_entry
memory_exit_entry:
    SAVE_ALL CALL_CHANGES
    mov rdi, [gs:CPU_SELF]
    call memory_exit
    test rax, rax
    jnz .whole
    RELOAD_GLOBAL_CTRL
    LOAD_ALL CALL_CHANGES
    vmresume
    jmp entry_failed
.whole:
    mov [gs:CPU_GPR + GPR_RBX * 8], rbx
    SAVE_ALL EXIT_KEEPS
    mov rdi, [gs:CPU_SELF]
    call rax
    RELOAD_GLOBAL_CTRL
    LOAD_ALL GUEST_REGISTERS
    vmresume
    jmp entry_failed

%macro HANDLE_MEMORY 0
    mov rdi, [gs:CPU_SELF]
    call memory_exit
    test rax, rax
    jz %%done
    mov rdi, [gs:CPU_SELF]
    call rax
%%done:
    RELOAD_GLOBAL_CTRL
%endmacro

align 16
global memory_exit_entry_guarded
memory_exit_entry_guarded:
    GUARDED HANDLE_MEMORY

section .note.GNU-stack noalloc noexec nowrite progbits
