; SPDX-License-Identifier: BSD-2-Clause
;
; VMCALL with every general register set and stored; RSP apart, which the pushes check.
; SDM Vol. 3, "VMCALL - Call to VM Monitor".

%include "registers.inc"

%define REGISTER(n) [rdi + 8 * (n)]

section .text

; void hypercall_whole(uint64_t registers[15]): RAX RBX RCX RDX RSI RDI RBP R8 ... R15, in and out.
global hypercall_whole
hypercall_whole:
        PUSH_CALLEE_SAVED
        push    rdi
        mov     rax, REGISTER(0)
        mov     rbx, REGISTER(1)
        mov     rcx, REGISTER(2)
        mov     rdx, REGISTER(3)
        mov     rsi, REGISTER(4)
        mov     rbp, REGISTER(6)
        mov     r8, REGISTER(7)
        mov     r9, REGISTER(8)
        mov     r10, REGISTER(9)
        mov     r11, REGISTER(10)
        mov     r12, REGISTER(11)
        mov     r13, REGISTER(12)
        mov     r14, REGISTER(13)
        mov     r15, REGISTER(14)
        mov     rdi, REGISTER(5)
        vmcall
        xchg    rdi, [rsp]
        mov     REGISTER(0), rax
        mov     REGISTER(1), rbx
        mov     REGISTER(2), rcx
        mov     REGISTER(3), rdx
        mov     REGISTER(4), rsi
        pop     rsi
        mov     REGISTER(5), rsi
        mov     REGISTER(6), rbp
        mov     REGISTER(7), r8
        mov     REGISTER(8), r9
        mov     REGISTER(9), r10
        mov     REGISTER(10), r11
        mov     REGISTER(11), r12
        mov     REGISTER(12), r13
        mov     REGISTER(13), r14
        mov     REGISTER(14), r15
        POP_CALLEE_SAVED
        ret
