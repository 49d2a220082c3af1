; SPDX-License-Identifier: BSD-2-Clause
;
; The way into and out of the guest. Between an exit and VMRESUME no IRET is executed and NMIs
; need no check: an NMI that root mode takes is made pending again in hardware by nmi/nmi.c, from
; any instruction here on, so the last instruction before VMRESUME is as safe as the first.
; SDM Vol. 3, "VM Entries", "VM Exits".

bits 64
default rel

%include "offsets.inc"
%include "registers.inc"

extern vmx_exit, vmx_exit_timed, vmx_entry_failed, pmu_reload_global_ctrl

section .text

; HOST_RIP points to one of these two; HOST_RSP to the top of the root stack, 16-byte aligned.
align 16
global vmx_exit_entry
vmx_exit_entry:
    SAVE_ALL GUEST_REGISTERS
    mov rdi, [gs:CPU_SELF]
    call vmx_exit
    mov rdi, [gs:CPU_SELF]
    call rax
    mov rax, [gs:CPU_GLOBAL_CTRL]
    cmp rax, [gs:CPU_GLOBAL_CTRL_LOADED]
    jne .reload
.resume:
    LOAD_ALL GUEST_REGISTERS
    vmresume
    jmp entry_failed
.reload:                        ; the guest's GLOBAL_CTRL changed since the last entry
    mov rdi, [gs:CPU_SELF]
    call pmu_reload_global_ctrl
    jmp .resume

align 16
global vmx_exit_entry_timed
vmx_exit_entry_timed:
    SAVE_ALL GUEST_REGISTERS
    mov rdi, [gs:CPU_SELF]
    call vmx_exit_timed
    LOAD_ALL GUEST_REGISTERS
    vmresume
    jmp entry_failed

; void vmx_launch(void): the first entry.
global vmx_launch
vmx_launch:
    and rsp, -16
    LOAD_ALL GUEST_REGISTERS
    vmlaunch

entry_failed:
    mov rdi, [gs:CPU_SELF]
    call vmx_entry_failed

section .note.GNU-stack noalloc noexec nowrite progbits
