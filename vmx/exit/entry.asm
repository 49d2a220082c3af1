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

extern vmx_exit, vmx_exit_timed, vmx_entry_failed, pmu_reload_global_ctrl

%define RSB_ENTRIES 32 ; as many as any processor has

; Between exit and entry: bookkeeping, handler, and the guest's GLOBAL_CTRL where it changed.
%macro HANDLE 0
    mov rdi, [gs:CPU_SELF]
    call vmx_exit
    mov rdi, [gs:CPU_SELF]
    call rax
    mov rax, [gs:CPU_GLOBAL_CTRL]
    cmp rax, [gs:CPU_GLOBAL_CTRL_LOADED]
    je %%loaded
    mov rdi, [gs:CPU_SELF]
    call pmu_reload_global_ctrl
%%loaded:
%endmacro

%macro HANDLE_TIMED 0
    mov rdi, [gs:CPU_SELF]
    call vmx_exit_timed
%endmacro

; %1: HANDLE or HANDLE_TIMED, between the mitigations that are on (mitigations.c). Without IRET, and
; every register that it uses is the root mode's: an NMI may come before or behind each of these. One
; that comes before IBRS, or behind the flush, runs without: it holds nothing but the hypervisor's
; addresses.
%macro GUARDED 1
    SAVE_ALL GUEST_REGISTERS
    test byte [gs:CPU_MITIGATIONS], MITIGATION_RSB
    jz %%filled
    mov ecx, RSB_ENTRIES
%%fill:
    call %%over
    int3
%%over:
    add rsp, 8
    dec ecx
    jnz %%fill
%%filled:
    lfence                      ; no jump around the fill is only predicted
    test byte [gs:CPU_MITIGATIONS], MITIGATION_IBRS
    jz %%handle
    mov ecx, IA32_SPEC_CTRL
    rdmsr                       ; the guest writes it without an exit
    mov [gs:CPU_SPEC_CTRL], eax
    or eax, SPEC_CTRL_IBRS
    wrmsr
%%handle:
    %1
    test byte [gs:CPU_MITIGATIONS], MITIGATION_IBRS
    jz %%flush
    mov ecx, IA32_SPEC_CTRL
    mov eax, [gs:CPU_SPEC_CTRL]
    xor edx, edx
    wrmsr
%%flush:
    test byte [gs:CPU_MITIGATIONS], MITIGATION_L1D
    jz %%load
    mov ecx, IA32_FLUSH_CMD
    mov eax, FLUSH_CMD_L1D
    xor edx, edx
    wrmsr
%%load:
    LOAD_ALL GUEST_REGISTERS
    test byte [gs:CPU_MITIGATIONS], MITIGATION_VERW
    jz %%enter
    verw [verw_selector]
%%enter:
    vmresume
    jmp entry_failed
%endmacro

section .rodata
verw_selector: dw ROOT_DS ; of memory, and of a writable segment: else buffers may stay as they are

section .text

; HOST_RIP points to one of these three; HOST_RSP to the top of the root stack, 16-byte aligned.
align 16
global vmx_exit_entry
vmx_exit_entry:
    SAVE_ALL GUEST_REGISTERS
    HANDLE
    LOAD_ALL GUEST_REGISTERS
    vmresume
    jmp entry_failed

align 16
global vmx_exit_entry_guarded
vmx_exit_entry_guarded:
    GUARDED HANDLE

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

entry_failed:
    mov rdi, [gs:CPU_SELF]
    call vmx_entry_failed

section .note.GNU-stack noalloc noexec nowrite progbits
