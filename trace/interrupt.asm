; SPDX-License-Identifier: BSD-2-Clause
;
; An interrupt that root mode takes for the guest: the only place where root mode has interrupts on.
; They come behind the NOP, because STI blocks them for one instruction, and go to a gate below, which
; goes back without IRET: an IRET would unblock NMIs. An NMI may come before or behind each of these
; instructions, and goes back to it (nmi/nmi.asm); where that is by POPF and RET, the interrupt may
; come between the two, with all registers but RSP as they were: RDX has that.
; SDM Vol. 3, "Maskable Hardware Interrupts"; "Masking Maskable Hardware Interrupts".

bits 64
default rel

section .text

%define VECTOR_FIRST 16

; uint32_t trace_take_interrupt(void)
global trace_take_interrupt
trace_take_interrupt:
    mov rdx, rsp
    xor eax, eax
    sti
    nop
    cli
    ret

; 8 bytes each: PUSH of a sign-extended byte, and a near jump.
%assign v VECTOR_FIRST
align 8
global trace_gates
trace_gates:
%rep 256 - VECTOR_FIRST
    align 8, int3
    push byte v - 128
    jmp near took
%assign v v+1
%endrep

took:
    pop rax
    add eax, 128
    mov rsp, rdx
    ret

section .note.GNU-stack noalloc noexec nowrite progbits
