; SPDX-License-Identifier: BSD-2-Clause
;
; Where the fuzzer's operations begin and end. An operation is some bytes in a page of their own; it
; begins by an IRET with every register loaded, and ends in whatever exception or interrupt comes
; first, INT FUZZ_DONE if it is none other. All 256 vectors lead here: everything is kept, the
; machine put back to what the fuzzer needs, and NMIs are unblocked by an IRET.
; SDM Vol. 3, "Interrupt and Exception Handling in 64-bit Mode", "Handling Multiple NMIs".

bits 64
default rel

%include "registers.inc"

extern unexpected_fault
extern fuzz_own_gdt, fuzz_own_idt

%define VECTOR_DB 1
%define VECTOR_NMI 2
; struct fuzz_state
%define GPR(n) (n) * 8
%define RIP_WORD 16 * 8
%define VECTOR_WORD 21 * 8
%define ERROR_WORD 22 * 8
%define CR_WORDS 23 * 8         ; CR0, CR2, CR3, CR4
; On a handler's stack
%define FRAME_VECTOR 0
%define FRAME_RIP 16
%define FRAME_CS 24
%define CS_RPL 3
%define KERNEL_ADDRESS_BIT 63   ; with CPL 0, the kernel's own addresses alone have it
%define CODE_SELECTOR 0x10
%define DATA_SELECTOR 0x18
%define USER_DATA 0x58 | 3      ; FUZZ_DATA_3
%define RFLAGS_FIXED 2
%define DR7_RESET 0x400

section .text

    STUBS fuzz, 0, 256, fuzz_common

; void fuzz_execute(void): fuzz_in to fuzz_out.
global fuzz_execute
fuzz_execute:
    PUSH_CALLEE_SAVED
    mov [caller_rsp], rsp
    ; Shadow stacks, which no RET may follow: CR4 with CET, and a stack of CPL 0 that is to be freed.
    mov rax, [fuzz_in + CR_WORDS + 24]
    test rax, rax
    jz .no_cet
    mov cr4, rax
    cmp qword [fuzz_in + CR_WORDS], 0
    je .no_cet
    setssbsy
.no_cet:
    mov rsp, fuzz_in + RIP_WORD
    LOAD_EACH fuzz_in + GPR(0), rax, rcx, rdx, rbx
    LOAD_EACH fuzz_in + GPR(5), rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
    iretq

global fuzz_common
fuzz_common:
    bt qword [rsp + FRAME_RIP], KERNEL_ADDRESS_BIT
    jnc .of_operation
    test byte [rsp + FRAME_CS], CS_RPL
    jz .from_kernel
.of_operation:
    STORE_EACH fuzz_out + GPR(0), rax, rcx, rdx, rbx
    STORE_EACH fuzz_out + GPR(5), rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
    pop qword [fuzz_out + VECTOR_WORD]
    pop qword [fuzz_out + ERROR_WORD]
    pop qword [fuzz_out + RIP_WORD]
    pop qword [fuzz_out + RIP_WORD + 8]
    pop qword [fuzz_out + RIP_WORD + 16]
    pop qword [fuzz_out + RIP_WORD + 24]
    pop qword [fuzz_out + RIP_WORD + 32]
    cld
    ; With DR7.GD left set this is a #DB in the kernel, which clears it.
    mov eax, DR7_RESET
    mov dr7, rax
    lgdt [fuzz_own_gdt]
    lidt [fuzz_own_idt]
    mov rax, cr0
    mov [fuzz_out + CR_WORDS], rax
    mov rdx, [fuzz_base + 0]
    cmp rax, rdx
    je .cr0_same
    mov cr0, rdx
.cr0_same:
    mov rax, cr2
    mov [fuzz_out + CR_WORDS + 8], rax
    mov rax, cr3
    mov [fuzz_out + CR_WORDS + 16], rax
    mov rcx, cr4
    mov [fuzz_out + CR_WORDS + 24], rcx
    ; CR3 before CR4: with CR4.PCIDE set its low bits are a PCID, and clearing PCIDE wants none.
    mov rdx, [fuzz_base + 8]
    cmp rax, rdx
    je .cr3_same
    mov cr3, rdx
.cr3_same:
    mov rdx, [fuzz_base + 16]
    cmp rcx, rdx
    je .cr4_same
    mov cr4, rdx
.cr4_same:
    xor eax, eax
    mov cr8, rax
    lldt ax
    mov eax, USER_DATA
    mov ds, eax
    mov es, eax
    mov fs, eax
    mov gs, eax
    mov rsp, [caller_rsp]
    mov rax, rsp
    push DATA_SELECTOR
    push rax
    push RFLAGS_FIXED
    push CODE_SELECTOR
    lea rax, [.back]
    push rax
    iretq
.back:
    POP_CALLEE_SAVED
    ret

; An NMI or a debug exception that waited until the operation was over is counted and no more. Both
; have stacks of their own. Anything else is an error of the fuzzer.
.from_kernel:
    cmp qword [rsp + FRAME_VECTOR], VECTOR_NMI
    ja .unexpected
    cmp qword [rsp + FRAME_VECTOR], VECTOR_DB
    jb .unexpected
    inc qword [fuzz_late]
    push rax
    mov eax, DR7_RESET
    mov dr7, rax
    pop rax
    add rsp, 16
    iretq
.unexpected:
    UNEXPECTED

section .bss
global fuzz_in, fuzz_out, fuzz_base, fuzz_late
alignb 8
fuzz_in: resq 27
fuzz_out: resq 27
fuzz_base: resq 3               ; CR0, CR3, CR4
fuzz_late: resq 1
caller_rsp: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
