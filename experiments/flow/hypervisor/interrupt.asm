; SPDX-License-Identifier: BSD-2-Clause
;
; Root mode takes an interrupt for the guest. Only here does root mode have interrupts on. They come
; after the NOP, because STI blocks them for one instruction. They go to a gate below, which goes
; back without IRET: an IRET would unblock NMIs. The 8259 may send any vector, also those of
; exceptions. An interrupt has IF set in the interrupted RFLAGS, and no error code. But vector 2 is
; taken for an NMI, which the guest gets. An NMI may come before or after each of these
; instructions, and goes back to it (nmi/nmi.asm). Where it goes back by POPF and RET, the interrupt
; may come between the two, with all registers but RSP as they were: RDX has RSP. SDM Vol. 3,
; "Maskable Hardware Interrupts"; "Masking Maskable Hardware Interrupts".

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

%define STUB_BYTES 16           ; of exception_stubs, vmx/root/fault.asm
%define INTERRUPTION_VALID (1 << 31)
%define FRAME_CS 8
%define FRAME_RFLAGS_IF 17      ; the byte of the interrupted RFLAGS that has IF
%define IF_OF_BYTE 2

; 8 bytes each: PUSH of a sign-extended byte, and a near jump.
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

; Interrupts are on in the window alone: what comes elsewhere is an exception, and goes to its stub with
; all registers. With an error code, RIP is where CS would be.
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

; The guest may send this vector, too. A machine check says in MCG_STATUS that it is one, and only
; where IF was 1 may it be anything else. RDX is kept; RCX and R8 are the caller's to save.
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
