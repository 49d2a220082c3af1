; SPDX-License-Identifier: BSD-2-Clause
;
; The test kernel's 32-bit and 64-bit entries: page tables (all memory mapped to itself, and the
; kernel at its own address), a stack, C. (Linux, Documentation/arch/x86/boot.rst, "32-bit Boot
; Protocol" and "64-bit Boot Protocol"; SDM Vol. 3, "4-Level Paging", "Initializing IA-32e Mode".)

%include "layout.inc"

extern kernel_main
extern bss_offset, bss_bytes, first_tables_offset, page_tables_offset

%define BOOT_CS 0x10            ; in the loader's GDT and in ours here
%define SCRATCH 0x1e4           ; of boot_params: the only memory known to be ours to write
%define PRESENT_WRITABLE 3
%define LARGE 0x80
%define PAGE 0x1000
%define TABLE_ENTRIES 512
%define LARGE_PAGE 0x200000
%define LOW_GIB 4               ; mapped by 2 MiB pages
%define KERNEL_PML4 511
%define KERNEL_PDPT 510
%define CR0_PG 0x80000000
%define CR4_PAE 0x20
%define IA32_EFER 0xc0000080
%define EFER_LME 0x100
%define CPUID_EXTENDED 0x80000001
%define EDX_PAGE_1G 26

section .head exec
bits 32
; ESI: boot_params. Flat segments, no paging, no stack yet.
start_32:
    cli
    cld
    lea esp, [esi + SCRATCH + 4]
    call .here
.here:
    pop ebp
    sub ebp, .here - start_32
    ; First tables: 4 GiB by 2 MiB pages.
    lea edi, [ebp + first_tables_offset]
    mov ebx, edi
    xor eax, eax
    mov ecx, 2 * PAGE / 4
    rep stosd
    lea eax, [ebx + PAGE + PRESENT_WRITABLE]
    mov [ebx], eax
    lea eax, [ebx + 2 * PAGE + PRESENT_WRITABLE]
    xor ecx, ecx
.pdpt:
    mov [ebx + PAGE + ecx * 8], eax
    add eax, PAGE
    inc ecx
    cmp ecx, LOW_GIB
    jb .pdpt
    lea edi, [ebx + 2 * PAGE]
    mov eax, PRESENT_WRITABLE | LARGE
    mov ecx, LOW_GIB * TABLE_ENTRIES
.pd:
    mov [edi], eax
    mov dword [edi + 4], 0
    add eax, LARGE_PAGE
    add edi, 8
    loop .pd

    mov eax, cr4
    or eax, CR4_PAE
    mov cr4, eax
    mov cr3, ebx
    mov ecx, IA32_EFER
    rdmsr
    or eax, EFER_LME
    wrmsr
    ; The far return's frame and the GDT's pointer go where ESP is: the scratch field holds 4 bytes
    ; only, so they lie with the first tables.
    lea esp, [ebx + (2 + LOW_GIB) * PAGE + PAGE]
    lea eax, [ebp + (gdt - start_32)]
    push eax
    push word gdt_end - gdt - 1
    lgdt [esp]
    lea eax, [ebp + ENTRY_64]
    push dword BOOT_CS
    push eax
    mov eax, cr0
    or eax, CR0_PG
    mov cr0, eax
    retf

align 8
gdt:
    dq 0, 0
    dq 0x00af9b000000ffff       ; 64-bit code
    dq 0x00cf93000000ffff       ; flat data
gdt_end:

    times ENTRY_64 - ($ - $$) db 0

bits 64
default rel
; RSI: boot_params. The loader's page tables map the kernel to itself.
global start_64
start_64:
    cli
    cld
    lea rbp, [start_32]
    lea rdi, [rbp + bss_offset]
    mov ecx, bss_bytes
    xor eax, eax
    rep stosb

    lea rbx, [rbp + page_tables_offset]
    lea rax, [rbx + PAGE + PRESENT_WRITABLE]
    mov [rbx], rax
    lea rax, [rbx + (2 + LOW_GIB) * PAGE + PRESENT_WRITABLE]
    mov [rbx + KERNEL_PML4 * 8], rax
    lea rax, [rbx + (3 + LOW_GIB) * PAGE + PRESENT_WRITABLE]
    mov [rbx + (2 + LOW_GIB) * PAGE + KERNEL_PDPT * 8], rax
    lea rax, [rbx + (4 + LOW_GIB) * PAGE + PRESENT_WRITABLE]
    mov [rbx + (3 + LOW_GIB) * PAGE], rax
    ; By 4 KiB pages: not every loader heeds an alignment.
    lea rdi, [rbx + (4 + LOW_GIB) * PAGE]
    lea rax, [rbp + PRESENT_WRITABLE]
    mov ecx, INIT_SIZE / PAGE
.own_pages:
    mov [rdi], rax
    add rax, PAGE
    add rdi, 8
    loop .own_pages

    lea rdi, [rbx + 2 * PAGE]
    mov eax, PRESENT_WRITABLE | LARGE
    mov ecx, LOW_GIB * TABLE_ENTRIES
.large:
    mov [rdi], rax
    add rax, LARGE_PAGE
    add rdi, 8
    loop .large

    lea rdi, [rbx + PAGE]
    lea rax, [rbx + 2 * PAGE + PRESENT_WRITABLE]
    mov ecx, LOW_GIB
.low:
    mov [rdi], rax
    add rax, PAGE
    add rdi, 8
    loop .low

    ; Above: 1 GiB pages where the processor has them; else that memory stays unmapped.
    mov r8, rbx
    mov eax, CPUID_EXTENDED
    cpuid
    mov rbx, r8
    bt edx, EDX_PAGE_1G
    jnc .ready
    mov eax, LOW_GIB
    shl rax, 30
    or rax, PRESENT_WRITABLE | LARGE
    mov ecx, TABLE_ENTRIES - LOW_GIB
    mov edx, 1 << 30
.huge:
    mov [rdi], rax
    add rax, rdx
    add rdi, 8
    loop .huge
.ready:
    mov cr3, rbx
    mov rax, .own
    jmp rax
.own:
    mov rsp, stack_end
    mov rdi, rsi
    call kernel_main
    ud2

section .noinit nobits alloc write align=4096
global first_tables
first_tables: resb (2 + LOW_GIB) * PAGE + PAGE

section .bss align=4096
global page_tables
page_tables: resb (5 + LOW_GIB) * PAGE
    resb 4 * PAGE
stack_end:

section .note.GNU-stack noalloc noexec nowrite progbits
