; SPDX-License-Identifier: BSD-2-Clause
;
; The path from the guest to root mode and back: one macro, assembled three times. HOST_RIP points
; to one of the three copies (vmx/start/vmcs_setup.c chooses). The VM exit itself loads RIP, RSP
; with the top of the root stack, and GS with the address of struct cpu.
; NMIs need no check before VMRESUME: if root mode takes an NMI for the guest, at any instruction
; here, nmi/nmi.c makes the NMI pending again in hardware. So the last instruction is as safe as the
; first. Nothing here executes IRET, which would unblock NMIs. If an exit has to unblock NMIs,
; handle_nmi_work() calls nmi_unblock() before the handler runs. A few handlers call nmi_unblock()
; themselves.
; SDM Vol. 3, "VM Entries", "VM Exits".

bits 64
default rel

%include "offsets.inc"

; defined in exit.c and pmu/pmu_switch.c
extern vmx_exit, vmx_exit_timed, vmx_report_entry_failure, pmu_reload_global_ctrl

%define RSB_ENTRIES 32 ; no processor has more entries

; The guest's registers are in struct cpu, in the order in which the processor numbers them. RSP is
; in the VMCS.
%define GUEST_REGISTERS \
    rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15

%macro SAVE_ALL 1-*
%assign offset CPU_GPR
%rep %0
%ifnidn %1, rsp
    mov [gs:offset], %1
%endif
%assign offset offset + 8
%rotate 1
%endrep
%endmacro

%macro LOAD_ALL 1-*
%assign offset CPU_GPR
%rep %0
%ifnidn %1, rsp
    mov %1, [gs:offset]
%endif
%assign offset offset + 8
%rotate 1
%endrep
%endmacro

section .rodata
; VERW clears the buffers reliably only if its operand is in memory and selects a writable segment.
verw_selector: dw ROOT_DS

; These macros execute the mitigations that are on (mitigations.c), after the exit and before the
; entry. They execute no IRET and use only registers that root mode may change, so an NMI may come
; before or after each of them. An NMI handler that runs before IBRS is set, or after the cache is
; flushed, lacks that protection, but it exposes nothing except addresses of the hypervisor.
%macro MITIGATE_EXIT 0
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
    lfence                      ; a mispredicted jump must not skip the fill
    test byte [gs:CPU_MITIGATIONS], MITIGATION_IBRS
    jz %%done
    mov ecx, IA32_SPEC_CTRL
    rdmsr                       ; the guest writes this MSR without an exit
    mov [gs:CPU_SPEC_CTRL], eax
    or eax, SPEC_CTRL_IBRS
    wrmsr
%%done:
%endmacro

%macro MITIGATE_ENTRY 0
    test byte [gs:CPU_MITIGATIONS], MITIGATION_IBRS
    jz %%flush
    mov ecx, IA32_SPEC_CTRL
    mov eax, [gs:CPU_SPEC_CTRL]
    xor edx, edx
    wrmsr
%%flush:
    test byte [gs:CPU_MITIGATIONS], MITIGATION_L1D
    jz %%done
    mov ecx, IA32_FLUSH_CMD
    mov eax, FLUSH_CMD_L1D
    xor edx, edx
    wrmsr
%%done:
%endmacro

; The last mitigation. It runs after the guest's registers are loaded: VERW needs no register.
%macro MITIGATE_BUFFERS 0
    test byte [gs:CPU_MITIGATIONS], MITIGATION_VERW
    jz %%done
    verw [verw_selector]
%%done:
%endmacro

; %1: the label for HOST_RIP. (HOST_RSP is the top of the root stack, 16-byte aligned.) %2: called
; between exit and entry. %3: GUARDED tests which mitigations are on, PLAIN does not.
%define PLAIN 0
%define GUARDED 1
%macro WAY_IN 3
align 16
global %1
%1:
    SAVE_ALL GUEST_REGISTERS
%if %3
    MITIGATE_EXIT
%endif
    mov rdi, [gs:CPU_SELF]
    call %2
    ; If the guest has changed its GLOBAL_CTRL, pass the new value to the VMCS. If no VMX control
    ; saves GLOBAL_CTRL, the exit's MSR-store list has just written the guest's value to
    ; CPU_GLOBAL_CTRL. If a control saves GLOBAL_CTRL, the two values below never differ.
    mov rax, [gs:CPU_GLOBAL_CTRL]
    cmp rax, [gs:CPU_GLOBAL_CTRL_LOADED]
    je %%loaded
    mov rdi, [gs:CPU_SELF]
    call pmu_reload_global_ctrl
%%loaded:
%if %3
    MITIGATE_ENTRY
%endif
    LOAD_ALL GUEST_REGISTERS
%if %3
    MITIGATE_BUFFERS
%endif
    vmresume
    jmp entry_failed
%endmacro

section .text

WAY_IN vmx_exit_entry, vmx_exit, PLAIN
WAY_IN vmx_exit_entry_guarded, vmx_exit, GUARDED
WAY_IN vmx_exit_entry_timed, vmx_exit_timed, GUARDED ; stats=cycles

; void vmx_launch(void): the first entry.
global vmx_launch
vmx_launch:
    and rsp, -16
    LOAD_ALL GUEST_REGISTERS
    vmlaunch

entry_failed:                   ; the guest's registers are still in struct cpu, for the report
    mov rdi, [gs:CPU_SELF]
    call vmx_report_entry_failure

section .note.GNU-stack noalloc noexec nowrite progbits
