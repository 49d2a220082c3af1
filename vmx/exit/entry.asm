; SPDX-License-Identifier: BSD-2-Clause
;
; The way into and out of the guest. NMIs need no check before VMRESUME: one that root mode takes is
; made pending again in hardware by nmi/nmi.c, from any instruction here on, so the last instruction
; is as safe as the first. Nothing here executes IRET, which would unblock NMIs: where root mode is to
; take them, nmi_unblock() is called, by vmx_exit() before the handler.
; SDM Vol. 3, "VM Entries", "VM Exits".

bits 64
default rel

%include "offsets.inc"
%include "vmx/root/registers.inc"

extern vmx_exit, vmx_exit_timed, vmx_entry_failed

%include "vmx/exit/entry.inc"

%macro HANDLE_PLAIN 0
    HANDLE vmx_exit
%endmacro

%macro HANDLE_TIMED 0
    mov rdi, [gs:CPU_SELF]
    call vmx_exit_timed
%endmacro

section .rodata
global verw_selector
verw_selector: dw ROOT_DS ; of memory, and of a writable segment: else buffers may stay as they are

section .text

; HOST_RIP points to one of these three; HOST_RSP to the top of the root stack, 16-byte aligned.
align 16
global vmx_exit_entry
vmx_exit_entry:
    SAVE_ALL EXIT_CHANGES
    HANDLE_PLAIN
    LOAD_ALL EXIT_CHANGES
    vmresume
    jmp entry_failed

align 16
global vmx_exit_entry_guarded
vmx_exit_entry_guarded:
    GUARDED HANDLE_PLAIN

align 16
global vmx_exit_entry_timed
vmx_exit_entry_timed:
    GUARDED HANDLE_TIMED

; void vmx_launch(void): the first entry.
global vmx_launch
vmx_launch:
    and rsp, -16
    LOAD_ALL GUEST_REGISTERS
    vmlaunch

global entry_failed
entry_failed:
    SAVE_ALL CALL_KEEPS         ; for the report; every way here has saved what calls change
    mov rdi, [gs:CPU_SELF]
    call vmx_entry_failed

section .note.GNU-stack noalloc noexec nowrite progbits
