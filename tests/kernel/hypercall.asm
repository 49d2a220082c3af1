; SPDX-License-Identifier: BSD-2-Clause
;
; VMCALL with every general register set and stored; RSP apart, which the pushes check.
; SDM Vol. 3, "VMCALL - Call to VM Monitor".

%include "registers.inc"

section .text

; void hypercall_whole(uint64_t registers[15]): RAX RBX RCX RDX RSI RDI RBP R8 ... R15, in and out.
global hypercall_whole
hypercall_whole:
    PUSH_CALLEE_SAVED
    push rdi
    LOAD_EACH rdi + 6 * 8, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    LOAD_EACH rdi, rax, rbx, rcx, rdx, rsi, rdi
    vmcall
    xchg rdi, [rsp]
    STORE_EACH rdi, rax, rbx, rcx, rdx, rsi
    STORE_EACH rdi + 6 * 8, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    pop qword [rdi + 5 * 8]
    POP_CALLEE_SAVED
    ret
