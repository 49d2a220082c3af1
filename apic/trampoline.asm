; SPDX-License-Identifier: BSD-2-Clause
;
; A started processor begins here. The code takes it from real mode to 64-bit mode on the
; hypervisor's page tables. A copy of this code, with its parameters filled in
; (vmx/start/trampoline.c), runs in a page below 1 MiB. Another copy, below 4 GiB, takes the first
; processor from 5-level to 4-level paging, which is not possible in 64-bit mode. No NMI may arrive
; while this code runs, because there is no IDT for these modes.
; SDM Vol. 3, "Mode Switching"; "Initializing IA-32e Mode"; "IA-32e Mode Compatibility" (CR4.LA57).

%define CR0_PE 1
%define CR0_ET 1 << 4
%define CR0_NE 1 << 5
%define CR0_WP 1 << 16
%define CR0_PG 1 << 31
%define CR4_PAE 1 << 5
%define IA32_EFER 0xc0000080
%define EFER_LME_NXE (1 << 8) | (1 << 11)
; Selectors. Root mode has the first two as well (vmx/root/descriptors.h).
%define CODE_64 0x08
%define DATA 0x10
%define CODE_32 0x18
; The offset of a label from the start of the page.
%define HERE(label) (label - trampoline_start)

section .rodata
bits 16
align 16
global trampoline_start
trampoline_start:
    cli
    cld
    mov ax, cs
    mov ds, ax
    movzx ebx, ax
    shl ebx, 4                  ; the page's address
    lea eax, [ebx + HERE(gdt)]
    mov [HERE(gdtr) + 2], eax
    o32 lgdt [HERE(gdtr)]
    lea eax, [ebx + HERE(protected_mode)]
    mov [HERE(far_32)], eax
    mov eax, CR0_PE | CR0_ET
    mov cr0, eax
    jmp dword far [HERE(far_32)]

bits 32
protected_mode:
    mov ax, DATA
    mov ds, ax
    mov ss, ax
    mov esp, [ebx + HERE(parameters.stack)]
    mov eax, CR4_PAE
    mov cr4, eax
    mov eax, [ebx + HERE(parameters.cr3)]
    mov cr3, eax
    mov ecx, IA32_EFER
    rdmsr
    or eax, EFER_LME_NXE
    wrmsr
    mov eax, CR0_PG | CR0_WP | CR0_NE | CR0_ET | CR0_PE
    mov cr0, eax
    lea eax, [ebx + HERE(long_mode)]
    push dword CODE_64
    push eax
    retf

; Entered in 64-bit mode, with the page's address in RBX, on a stack below 4 GiB. Page and stack are
; identity-mapped.
bits 64
global trampoline_leave
trampoline_leave:
    cli
    lea rax, [rbx + HERE(gdt)]
    push rax
    push word gdt_end - gdt - 1
    lgdt [rsp]
    lea rax, [rbx + HERE(compatible)]
    push CODE_32
    push rax
    o64 retf
bits 32
compatible:
    mov eax, cr0
    and eax, ~(CR0_PG)
    mov cr0, eax
    jmp protected_mode

bits 64
long_mode:
    mov ebx, ebx                ; clears the upper half, which is undefined after the switch
    mov rsp, [rbx + HERE(parameters.stack)]
    mov rdi, [rbx + HERE(parameters.argument)]
    mov rax, [rbx + HERE(parameters.entry)]
    xor ebp, ebp
    call rax                    ; does not return
    ud2

align 8
gdt:
    dq 0
    dq 0x00af9b000000ffff       ; code, L
    dq 0x00cf93000000ffff       ; data
    dq 0x00cf9b000000ffff       ; code, base 0, limit 4 GiB, 32 bits
gdt_end:
gdtr:
    dw gdt_end - gdt - 1
    dd 0
far_32:
    dd 0
    dw CODE_32
align 8
global trampoline_parameters
trampoline_parameters:
parameters:
.cr3:      dq 0
.stack:    dq 0
.argument: dq 0
.entry:    dq 0
global trampoline_end
trampoline_end:

section .note.GNU-stack noalloc noexec nowrite progbits
