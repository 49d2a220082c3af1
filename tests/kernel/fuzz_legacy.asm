; SPDX-License-Identifier: BSD-2-Clause
;
; Down to legacy mode without paging, one operation there, and up again, whatever comes of it. This
; code runs where it lies in physical memory, which is mapped to itself; what it works with is a
; struct legacy (fuzz_legacy.c). SDM Vol. 3, "Switching Out of IA-32e Mode Operation", "Initializing
; IA-32e Mode".

%include "long_mode.inc"

%define CODE fuzz_legacy_code
%define TSS_32 0x28
; struct legacy: 256 stubs of 8 bytes each first, and it is aligned to those
%define STUB_MASK 0x7ff
%define IN 0x800                ; as POPAD takes them
%define FRAME IN + 32           ; EIP, CS, EFLAGS; ESP, SS, ES, DS, FS, GS for virtual-8086 mode
%define CLEAR_LME IN + 68
%define OUT IN + 72             ; PUSHAD's, the stub's, then what the event pushed
%define OUT_WORDS 18
%define OUT_VECTOR OUT + OUT_WORDS * 4
%define OUT_CR OUT_VECTOR + 4   ; CR0, CR4
%define OWN OUT_CR + 8          ; CR0, CR4, and where this code is
%define GDT_POINTER OWN + 12    ; of these tables: limit and base
%define IDT_POINTER GDT_POINTER + 10
%define STACK_TOP 0x1000        ; in the struct

section .data align=16
; void fuzz_legacy_code(uint64_t physical, uint64_t legacy): its own address, and the struct's.
global fuzz_legacy_code
fuzz_legacy_code:
bits 64
    PUSH_CALLEE_SAVED
    mov rbx, rdi
    mov rbp, rsi
    mov [rbp + OWN + 8], ebx
    mov rax, cr0
    mov [rbp + OWN], eax
    mov rax, cr4
    mov [rbp + OWN + 4], eax
    LEAVE_64_BIT_MODE [rbp + GDT_POINTER]
    lea esp, [ebp + STACK_TOP]
    DISABLE_PAGING
    cmp dword [ebp + CLEAR_LME], 0
    je .keep_lme
    DISABLE_LONG_MODE
.keep_lme:
    lidt [ebp + IDT_POINTER]
    mov ax, TSS_32
    ltr ax
%assign n 8
%rep 9
    push dword [ebp + FRAME + n * 4]
%assign n n-1
%endrep
    lea eax, [ebp + IN]
    mov ecx, esp
    mov esp, eax
    ; POPAD would leave ESP there: the frame's address is kept in the room that POPAD skips.
    mov [eax + 12], ecx
    pop edi
    pop esi
    pop ebp
    add esp, 4
    pop ebx
    pop edx
    pop ecx
    pop eax
    mov esp, [esp - 20]
    iretd

; Every event: the stub's CALL pushed where it is, and so its vector and the struct.
global fuzz_legacy_event
fuzz_legacy_event:
    pushad
    cld
    mov ax, DATA_SELECTOR
    mov ds, ax
    mov es, ax
    mov ebp, [esp + 32]
    mov ecx, ebp
    and ebp, ~STUB_MASK
    and ecx, STUB_MASK
    shr ecx, 3
    mov [ebp + OUT_VECTOR], ecx
    mov esi, esp
    lea edi, [ebp + OUT]
    mov ecx, OUT_WORDS
    rep movsd
    mov eax, cr0
    mov [ebp + OUT_CR], eax
    mov eax, cr4
    mov [ebp + OUT_CR + 4], eax
    mov ebx, [ebp + OWN + 8]
    mov eax, [ebp + OWN + 4]
    mov cr4, eax
    ENABLE_LONG_MODE
    mov eax, [ebp + OWN]
    mov cr0, eax
    RETURN_TO_64_BIT_MODE
    mov eax, DATA_SELECTOR
    mov ss, eax
    POP_CALLEE_SAVED
    ret

align 8
SAVED_64_BIT_STATE

section .note.GNU-stack noalloc noexec nowrite progbits
