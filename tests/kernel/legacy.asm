; SPDX-License-Identifier: BSD-2-Clause
;
; The way out of IA-32e mode and back. A copy of this lies in a page below 1 MiB, mapped to itself, in
; struct page (legacy.c). It goes to the mode that the struct says, and begins the code by an IRET.
; Whatever exception comes first ends the code. The copy then holds it, with the registers, and is back
; in 64-bit mode. SDM Vol. 3, "Switching Out of IA-32e Mode Operation", "Switching Modes", "Entering
; Virtual-8086 Mode".

%include "long_mode.inc"

%define CODE legacy_code
%define AT_16(label) (label) - legacy_code
; Of struct page's GDT
%define CODE_16 0x28
%define DATA_16 0x30
%define TSS_FIRST 0x38
%define TSS_SECOND 0x40
%define GDT_BYTES 12 * 8
%define KERNEL_TSS 0x20         ; of the kernel's own GDT
%define BUSY 2
; enum legacy_mode; all others begin in protected mode
%define MODE_REAL 1
%define MODE_PAE 2
%define CR0_PE 1
%define VECTORS 32
%define INTERRUPT_GATE 0x8e00
%define TASK_GATE 0x8500
%define PUSH_ERROR_CODES 0x227d00 ; 8, 10 to 14, 17, 21
%define PAGE 0x1000
; In the copy alone: tables that are made there, then struct run.
%define idt legacy_code + 0x4a0
%define vectors idt + VECTORS * 8
%define old_cr3 vectors + VECTORS * 4
%define mode legacy_code + 0x680
%define new_cr3 mode + 4
%define vector mode + 8
%define error_code mode + 12
%define task_gates mode + 16
%define gpr mode + 20
%define gdt gpr + 8 * 4
%define frame legacy_code + 0x800 ; what an exception of CPL 0 pushes comes here and below

section .data align=16
; void legacy_code(void), at the place of the copy
global legacy_code
legacy_code:
bits 64
default rel
    PUSH_CALLEE_SAVED
    lea rbx, [legacy_code]
    mov rax, cr3
    mov [AT(old_cr3)], eax
    ; Gates and vectors: stubs of five bytes, and of three.
    lea rdi, [AT(idt)]
    lea rsi, [AT(vectors)]
    lea eax, [AT(stubs)]
    mov r8d, ebx
    shr r8d, 4
    mov edx, AT_16(stubs_16)
    mov ecx, VECTORS
.gate:
    mov [rdi], ax
    mov word [rdi + 2], CODE_32
    mov [rdi + 4], eax
    mov word [rdi + 4], INTERRUPT_GATE
    btr dword [AT(task_gates)], 0
    jnc .no_task
    mov dword [rdi], TSS_SECOND << 16
    mov word [rdi + 4], TASK_GATE
.no_task:
    ror dword [AT(task_gates)], 1
    mov [rsi], dx
    mov [rsi + 2], r8w
    add eax, 5
    add edx, 3
    add rdi, 8
    add rsi, 4
    loop .gate
    lea eax, [AT(gdt)]
    mov [AT(gdt_pointer) + 2], rax
    lea eax, [AT(idt)]
    mov [AT(idt_pointer) + 2], rax
    lea eax, [AT(vectors)]
    mov [AT(vectors_pointer) + 2], rax
    lea eax, [AT(from_real)]
    mov [AT(far_from_real)], eax
    mov [AT(far_real) + 2], r8w
    LEAVE_64_BIT_MODE [AT(gdt_pointer)]
    mov fs, ax
    mov gs, ax
    lea esp, [ebx + PAGE]
    DISABLE_PAGING
    DISABLE_LONG_MODE
    lidt [AT_32(idt_pointer)]
    mov ax, TSS_FIRST
    ltr ax
    mov eax, [AT_32(mode)]
    cmp eax, MODE_REAL
    je to_real
    cmp eax, MODE_PAE
    jne .go
    mov eax, [AT_32(new_cr3)]
    mov cr3, eax
    ENABLE_PAGING
.go:
    lea esp, [AT_32(frame)]
    mov eax, [AT_32(gpr)]
    mov ecx, [AT_32(gpr) + 4]
    mov edx, [AT_32(gpr) + 8]
    mov ebp, [AT_32(gpr) + 20]
    mov esi, [AT_32(gpr) + 24]
    mov edi, [AT_32(gpr) + 28]
    mov ebx, [AT_32(gpr) + 12]
    iretd

stubs:
%rep VECTORS
    call exception
%endrep
exception:
    pushad
    mov ax, DATA_SELECTOR
    mov ds, ax
    mov es, ax
    call .here
.here:
    pop ebx
    sub ebx, .here - legacy_code
    mov esi, esp
    lea edi, [AT_32(gpr)]
    mov ecx, 8
    cld
    rep movsd
    lodsd                       ; where the stub's call came from
    sub eax, ebx
    sub eax, stubs + 5 - legacy_code
    cdq
    mov ecx, 5
    div ecx
    mov [AT_32(vector)], eax
    mov ecx, eax
    mov eax, PUSH_ERROR_CODES
    bt eax, ecx
    mov eax, -1
    jnc .no_error_code
    lodsd
.no_error_code:
    mov [AT_32(error_code)], eax
    lea edi, [AT_32(frame)]
    mov ecx, 3
    rep movsd
back:
    lea esp, [ebx + PAGE]
    DISABLE_PAGING
    mov ax, TSS_SECOND
    ltr ax
    mov eax, [AT_32(old_cr3)]
    mov cr3, eax
    ENABLE_LONG_MODE
    ENABLE_PAGING
    RETURN_TO_64_BIT_MODE
    mov rax, [AT(old_gdt) + 2]
    and byte [rax + KERNEL_TSS + 5], ~BUSY
    mov ax, KERNEL_TSS
    ltr ax
    POP_CALLEE_SAVED
    ret

bits 32
to_real:
    push CODE_16
    push AT_16(real_16)
    retf

bits 16
real_16:
    mov ax, DATA_16
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov fs, ax
    mov gs, ax
    mov eax, cr0
    and eax, ~CR0_PE
    mov cr0, eax
    jmp far [AT_16(far_real)]
real:
    mov ax, cs
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov fs, ax
    mov gs, ax
    o32 lidt [AT_16(vectors_pointer)]
    mov esp, AT_16(frame)
    mov eax, [AT_16(gpr)]
    mov ecx, [AT_16(gpr) + 4]
    mov edx, [AT_16(gpr) + 8]
    mov ebx, [AT_16(gpr) + 12]
    mov ebp, [AT_16(gpr) + 20]
    mov esi, [AT_16(gpr) + 24]
    mov edi, [AT_16(gpr) + 28]
    iretd

stubs_16:
%rep VECTORS
    call exception_16
%endrep
exception_16:
    pushad
    mov bp, sp
    mov ax, cs
    mov ds, ax
    mov es, ax
    xor ebx, ebx
    mov bx, ax
    shl ebx, 4
    mov si, sp
    mov di, AT_16(gpr)
    mov cx, 8
    cld
    ss rep movsd
    mov dword [AT_16(error_code)], -1
    movzx eax, word [bp + 32]
    sub ax, AT_16(stubs_16) + 3
    mov cl, 3
    div cl
    movzx eax, al
    mov [AT_16(vector)], eax
    movzx eax, word [bp + 34]
    mov [AT_16(frame)], eax
    movzx eax, word [bp + 36]
    mov [AT_16(frame) + 4], eax
    movzx eax, word [bp + 38]
    mov [AT_16(frame) + 8], eax
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    jmp dword far [AT_16(far_from_real)]

bits 32
from_real:
    mov ax, DATA_SELECTOR
    mov ss, ax
    mov ds, ax
    mov es, ax
    jmp back

align 8
SAVED_64_BIT_STATE
gdt_pointer:
    dw GDT_BYTES - 1
    dq 0
idt_pointer:
    dw VECTORS * 8 - 1
    dq 0
vectors_pointer:
    dw VECTORS * 4 - 1
    dq 0
far_real:
    dw AT_16(real)
    dw 0
far_from_real:
    dd 0
    dw CODE_32
global legacy_code_end
legacy_code_end:

section .note.GNU-stack noalloc noexec nowrite progbits
