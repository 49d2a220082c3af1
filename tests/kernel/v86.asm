; SPDX-License-Identifier: BSD-2-Clause
;
; Down from 64-bit mode to protected mode without paging, into virtual-8086 mode until the first event
; there, and up again. It runs where it lies in physical memory, mapped to itself.
; SDM Vol. 3, "Switching Out of IA-32e Mode Operation", "Entering Virtual-8086 Mode".

%include "long_mode.inc"

%define CODE v86_code
%define TSS_32 0x28
%define PUSHES_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17)
%define EXCEPTIONS 20
%define INS_TO 0x400            ; in the page of the code
; struct v86
%define GDT_POINTER 0
%define IDT_POINTER 16
%define CR4 32
%define CR4_AFTER 36
%define STACK 40
%define FRAME 44                ; EIP, CS, EFLAGS, ESP, SS, ES, DS
%define REGISTERS 72            ; EAX, ECX, EDX
%define OUT 84
%define OUT_WORDS 15            ; PUSHAD's, vector, error code, EIP, CS, EFLAGS, ESP, SS

section .data align=16
; void v86_code(uint64_t physical, struct v86 *): both by their physical addresses.
global v86_code
v86_code:
bits 64
    PUSH_CALLEE_SAVED
    mov rbx, rdi
    mov [AT(run)], esi
    LEAVE_64_BIT_MODE [rsi + GDT_POINTER]
    mov esp, [esi + STACK]
    DISABLE_PAGING
    lidt [esi + IDT_POINTER]
    mov eax, [esi + CR4]
    mov cr4, eax
    mov ax, TSS_32
    ltr ax
    push 0                      ; GS, FS
    push 0
    push dword [esi + FRAME + 24]
    push dword [esi + FRAME + 20]
    push dword [esi + FRAME + 16]
    push dword [esi + FRAME + 12]
    push dword [esi + FRAME + 8]
    push dword [esi + FRAME + 4]
    push dword [esi + FRAME]
    mov eax, [esi + REGISTERS]
    mov ecx, [esi + REGISTERS + 4]
    mov edx, [esi + REGISTERS + 8]
    xor ebx, ebx
    xor ebp, ebp
    xor esi, esi
    mov edi, INS_TO
    iretd

; One for each exception, and two more.
%assign v 0
%rep EXCEPTIONS + 2
align 16
stub_%+v:
%if !PUSHES_ERROR_CODE(v)
    push 0
%endif
    push v
    jmp every_event
%assign v v+1
%endrep

every_event:
    pushad
    mov ax, DATA_SELECTOR
    mov ds, ax
    mov es, ax
    call .here
.here:
    pop ebx
    sub ebx, .here - v86_code
    mov ebp, [AT_32(run)]
    mov esi, esp
    lea edi, [ebp + OUT]
    mov ecx, OUT_WORDS
    cld
    rep movsd
    mov eax, [ebp + CR4_AFTER]
    mov cr4, eax
    ENABLE_PAGING
    RETURN_TO_64_BIT_MODE
    POP_CALLEE_SAVED
    ret

align 8
global v86_stubs
v86_stubs: dq stub_0            ; STUB_BYTES apart
run: dd 0
SAVED_64_BIT_STATE

section .note.GNU-stack noalloc noexec nowrite progbits
