; SPDX-License-Identifier: BSD-2-Clause
;
; The ways into root mode and out of it while exits are recorded: that of vmx/exit/entry.asm, with the
; record begun before the handler and ended behind it.

bits 64
default rel

%include "offsets.inc"
%include "experiments/flow/hypervisor/offsets.inc"
%include "vmx/root/registers.inc"
%include "vmx/exit/entry.inc"

extern ring_place, trace_exit, entry_failed, verw_selector

; The fields are there on each processor: no VMREAD here can fail.
%macro HANDLE_TRACED 0
    rdtsc
    mov rcx, [ring_place]
    mov rcx, [gs:rcx + CPU_TRACE_RECORD]
    mov [rcx + RECORD_TSC], eax
    mov [rcx + RECORD_TSC + 4], edx
    mov edx, VMCS_GUEST_RIP
    vmread [rcx + RECORD_RIP], rdx
    mov edx, VMCS_GUEST_CR3
    vmread [rcx + RECORD_CR3], rdx ; its highest bytes are written anew by trace_exit()
    HANDLE trace_exit
    rdtsc
    mov rdx, [ring_place]
    mov rcx, [gs:rdx + CPU_TRACE_RECORD]
    sub eax, [rcx + RECORD_TSC]
    mov [rcx + RECORD_ROOT_TIME], eax
    add rcx, RECORD_BYTES
    cmp rcx, [gs:rdx + CPU_TRACE_END]
    jne %%more
    mov rcx, [gs:rdx + CPU_TRACE_FIRST]
%%more:
    mov [gs:rdx + CPU_TRACE_RECORD], rcx
    mov rcx, [gs:rdx + CPU_TRACE_RING]
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

section .note.GNU-stack noalloc noexec nowrite progbits
