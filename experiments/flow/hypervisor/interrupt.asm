; SPDX-License-Identifier: BSD-2-Clause
;
; Root mode takes an interrupt for the guest. Root mode enables interrupts only here. Interrupts
; arrive after the NOP, because STI blocks them for one instruction. An interrupt goes to a gate
; below, which returns without IRET, because an IRET would unblock NMIs.
;
; The 8259 may send any vector, including the vector of an exception. If the event is an interrupt,
; IF is set in the interrupted RFLAGS, and there is no error code. Vector 2 is different: root mode
; takes it for an NMI, and the guest gets that NMI.
;
; An NMI may arrive before or after each of these instructions, and its handler returns there
; (nmi/nmi.asm). If the NMI handler returns by POPF and RET, the interrupt may arrive between POPF
; and RET. Then all registers except RSP are unchanged, and RDX holds the RSP that this function
; began with. SDM Vol. 3, "Maskable Hardware Interrupts"; "Masking Maskable Hardware Interrupts".

bits 64
default rel

%include "offsets.inc"
%include "experiments/flow/hypervisor/offsets.inc"

extern exception_stubs

section .text

; uint32_t trace_take_interrupt(void)
global trace_take_interrupt
trace_take_interrupt:
    mov rdx, rsp
    xor eax, eax
    sti
    nop
    cli
    ret

%define STUB_BYTES 16           ; size of one stub in exception_stubs (vmx/root/fault.asm)
%define INTERRUPTION_VALID (1 << 31)
%define FRAME_CS 8
%define FRAME_RFLAGS_IF 17      ; offset of the byte that has IF in the interrupted RFLAGS
%define IF_OF_BYTE 2

; Each gate has 8 bytes: a PUSH of a sign-extended byte, and a near jump.
%assign v 0
align 8
global trace_gates
trace_gates:
%rep 256
    align 8, int3
%if v == VECTOR_MC
    jmp near interrupt_or_machine_check
%else
    push byte v - 128
    jmp near took
%endif
%assign v v+1
%endrep

; Interrupts are enabled only in the window above. Any event elsewhere is an exception, and goes to
; its stub with all registers unchanged. If there is an error code, RIP lies where CS would lie
; without an error code.
took:
    cmp qword [rsp + 8 + FRAME_CS], ROOT_CS
    jne .exception
    test byte [rsp + 8 + FRAME_RFLAGS_IF], IF_OF_BYTE
    jz .exception
    pop rax
    add eax, INTERRUPTION_VALID + 128
    mov rsp, rdx
    ret
.exception:
    xchg rax, [rsp]
    push rcx
    lea rcx, [exception_stubs + 128 * STUB_BYTES]
    shl rax, 4
    add rax, rcx
    pop rcx
    xchg rax, [rsp]
    ret

; The guest may also send this vector as an interrupt. MCG_STATUS tells whether the event is a
; machine check. The event can be an interrupt only if IF was 1. RDX is preserved. RCX and R8 are
; caller-saved.
; SDM Vol. 3, "IA32_MCG_STATUS MSR".
interrupt_or_machine_check:
    test byte [rsp + FRAME_RFLAGS_IF], IF_OF_BYTE
    jz .machine_check
    mov r8, rdx
    mov ecx, IA32_MCG_STATUS
    rdmsr
    mov rdx, r8
    test al, MCG_STATUS_MCIP
    jnz .machine_check
    mov eax, INTERRUPTION_VALID + VECTOR_MC
    mov rsp, rdx
    ret
.machine_check:
    jmp exception_stubs + VECTOR_MC * STUB_BYTES

section .note.GNU-stack noalloc noexec nowrite progbits
