; SPDX-License-Identifier: BSD-2-Clause
; stretch.asm: the traced stretch: START, work, STOP, with no branch of its own between the system
; calls but the call of the work and its return. The region marker tells the emulator what to
; compare with (emulator/README.md). Linux's system call ABI: x86-64 psABI, A.2.

bits 64
default rel

%include "vmx/root/registers.inc"

SYS_IOCTL equ 16
START equ 0x6241 ; abi.h
STOP equ 0x6242

section .text
global stretch_run, stretch_begin, stretch_end

; long stretch_run(long fd, uint32_t region, void (*work)(void *), void *argument)
; Gives 0, or the error of the system call that failed; where START fails the work is not done.
stretch_run:
    PUSH_ALL rbx, rbp, r12, r13, r14
    mov rbp, rdi
    mov r12d, esi
    mov r13, rdx
    mov r14, rcx
    mov esi, START
    xor edx, edx
    mov eax, SYS_IOCTL
    syscall
stretch_begin:
    test rax, rax
    jnz stretch_done
    mov eax, r12d
    mov ecx, 1
    xchg bx, bx
    mov rdi, r14
    call r13
    mov eax, r12d
    xor ecx, ecx
    xchg bx, bx
    mov rdi, rbp
    mov esi, STOP
    xor edx, edx
    mov eax, SYS_IOCTL
stretch_end:
    syscall
stretch_done:
    POP_ALL rbx, rbp, r12, r13, r14
    ret

section .note.GNU-stack noalloc noexec nowrite progbits
