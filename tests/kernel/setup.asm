; SPDX-License-Identifier: BSD-2-Clause
;
; The test kernel's real-mode entry, for loaders on top of a BIOS (QEMU -kernel): on to protected
; mode and to the 32-bit entry. The setup part itself serves as boot_params: it is zero where no
; loader writes. (Linux, Documentation/arch/x86/boot.rst, "Running the Kernel"; SDM Vol. 3,
; "Switching to Protected Mode".)

%define BOOT_CS 0x10
%define BOOT_DS 0x18
%define CODE32_START 0x214      ; offset of that header field
%define PORT_A 0x92             ; system control port A
%define PORT_A_A20 2
%define PORT_A_RESET 1
%define CR0_PE 1

; DS is the setup part's segment; CS is 0x20 paragraphs more.
section .setup_code
bits 16
    cli
    cld
    in al, PORT_A
    or al, PORT_A_A20
    and al, ~PORT_A_RESET & 0xff
    out PORT_A, al
    xor ebx, ebx
    mov bx, ds
    shl ebx, 4
    add [gdt_pointer + 2], ebx
    add [entry_pointer], ebx
    lgdt [gdt_pointer]
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    jmp dword far [entry_pointer]

bits 32
protected:
    mov eax, BOOT_DS
    mov ds, eax
    mov es, eax
    mov fs, eax
    mov gs, eax
    mov ss, eax
    mov esi, ebx
    jmp [ebx + CODE32_START]

align 8
gdt:
    dq 0, 0
    dq 0x00cf9b000000ffff       ; flat 32-bit code
    dq 0x00cf93000000ffff       ; flat data
gdt_end:
gdt_pointer:
    dw gdt_end - gdt - 1
    dd gdt
entry_pointer:
    dd protected
    dw BOOT_CS

section .note.GNU-stack noalloc noexec nowrite progbits
