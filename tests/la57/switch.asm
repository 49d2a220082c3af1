; SPDX-License-Identifier: BSD-2-Clause
;
; From 4 levels of paging to 5 on firmware's own tables, and back to the caller. A copy of this runs in
; a page below 4 GiB; the stack is there, too.
; SDM Vol. 3, "4-Level Paging and 5-Level Paging"; "Switching Out of IA-32e Mode".

%define CR0_PG 1 << 31
%define CR4_LA57 1 << 12
%define CODE_64 0x08
%define DATA 0x10
%define CODE_32 0x18

section .text
bits 64
; RDI: the table of level 5.
global switch_start
switch_start:
    pushfq
    cli
    push rbx
    mov ax, cs
    movzx rcx, ax               ; firmware's, for the way back
    mov ax, ss
    movzx rdx, ax
    sub rsp, 16
    sgdt [rsp]
    lea rsi, [rel back]
    lea rax, [rel gdt]
    push rax
    push word gdt_end - gdt - 1
    lgdt [rsp]
    lea rax, [rel compatible]
    push CODE_32
    push rax
    o64 retf

bits 32
compatible:
    mov eax, DATA
    mov ss, ax
    mov eax, cr0
    and eax, ~(CR0_PG)
    mov cr0, eax
    mov ebx, cr4
    or ebx, CR4_LA57
    mov cr4, ebx
    mov cr3, edi
    or eax, CR0_PG
    mov cr0, eax
    push dword CODE_64
    push esi
    retf

bits 64
back:
    add rsp, 10
    lgdt [rsp]
    add rsp, 16
    mov ss, dx
    lea rax, [rel home]
    push rcx
    push rax
    o64 retf
home:
    pop rbx
    popfq
    ret

align 8
gdt:
    dq 0
    dq 0x00af9b000000ffff       ; code, L
    dq 0x00cf93000000ffff       ; data
    dq 0x00cf9b000000ffff       ; code, 32 bits
gdt_end:
global switch_end
switch_end:

section .note.GNU-stack noalloc noexec nowrite progbits
