; SPDX-License-Identifier: BSD-2-Clause
;
; The ways into root mode and out of it while memory accesses are recorded: with memory_exit().

bits 64
default rel

%include "offsets.inc"
%include "vmx/root/registers.inc"
%include "vmx/exit/entry.inc"

extern memory_exit, entry_failed, verw_selector

section .text

; What most of these exits do needs the registers alone that a call may change.
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
