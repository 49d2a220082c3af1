; SPDX-License-Identifier: BSD-2-Clause
;
; Where a SIPI lets a processor begin: a copy of this in a page below 1 MiB. It keeps what it finds
; in every register that this mode can read, and goes to 64-bit mode and to C. It works by CS alone.
; SDM Vol. 3, "Processor State After Reset", "Initializing IA-32e Mode".

%include "layout.inc"

%define AT(label) ((label) - start_code)
%define PAGE 0x1000
%define CODE_SELECTOR 0x10
%define CR0_PG_PE 0x80000001
%define CR4_PAE 0x20
%define IA32_EFER 0xc0000080
%define EFER_LME 0x100
%define MSR_BYTES 12

; Keeps registers in start_NAME.
%macro KEEP 1-*
%rep %0
    mov [cs:AT(start_%1)], %1
%rotate 1
%endrep
%endmacro

%macro KEEP_BY_EAX 1-*
%rep %0
    mov eax, %1
    mov [AT(start_%1)], eax
%rotate 1
%endrep
%endmacro

; Room for them: the size, and names.
%macro ROOM 2-*
%define SIZE %1
%rep %0 - 1
%rotate 1
start_%1: SIZE 0
%endrep
%endmacro

section .text
align 16
bits 16
global start_code
start_code:
    KEEP eax, ecx, edx, ebx, esp, ebp, esi, edi, cs, ds, es, ss, fs, gs
    mov ax, cs
    mov ds, ax
    mov ss, ax
    mov esp, PAGE
    pushfd
    pop dword [AT(start_eflags)]
    cld
    o32 sgdt [AT(start_gdt)]
    o32 sidt [AT(start_idt)]
    KEEP_BY_EAX cr0, cr2, cr3, cr4, dr0, dr1, dr2, dr3, dr6, dr7
    fnstcw [AT(start_fcw)]
    fnstsw [AT(start_fsw)]
    mov si, AT(start_msrs)
.msr:
    mov ecx, [si]
    rdmsr
    mov [si + 4], eax
    mov [si + 8], edx
    add si, MSR_BYTES
    cmp si, AT(start_msrs_end)
    jb .msr

    xor ebx, ebx
    mov bx, cs
    shl ebx, 4
    lea eax, [ebx + AT(start_gdt_new)]
    mov [AT(start_gdt_pointer) + 2], eax
    lea eax, [ebx + AT(start_64)]
    mov [AT(start_far)], eax
    o32 lgdt [AT(start_gdt_pointer)]
    mov eax, CR4_PAE
    mov cr4, eax
    mov eax, [AT(start_cr3_new)]
    mov cr3, eax
    mov ecx, IA32_EFER
    xor eax, eax
    xor edx, edx
    mov ax, EFER_LME
    wrmsr
    mov eax, CR0_PG_PE
    mov cr0, eax
    jmp dword far [AT(start_far)]

bits 64
default rel
start_64:
    ; Several may be here at once: from now on each by its APIC ID (CPUID leaf 1, EBX[31:24]).
    mov eax, 1
    cpuid
    shr ebx, 24
    shl ebx, 4                  ; struct start_own
    add rbx, [start_own]
    mov rsp, [rbx]
    mov rdi, [rbx + 8]
    test rdi, rdi
    jz .unknown
    mov rax, [start_entry]
    push 0
    jmp rax
.unknown:                       ; a broadcast starts those, too, that nobody counts on
    cli
    hlt
    jmp .unknown

align 8
start_gdt_new:
    dq 0, 0
    dq 0x00af9b000000ffff       ; 64-bit code
    dq 0x00cf93000000ffff       ; flat data
start_gdt_pointer:
    dw start_gdt_pointer - start_gdt_new - 1
    dd 0
start_far:
    dd 0
    dw CODE_SELECTOR

; struct start_parameters
align 8
global start_parameters
start_parameters:
start_cr3_new: dd 0
start_entry: dq 0
start_own: dq 0

; struct start_state
align 8
global start_state
start_state:
    ROOM dd, eax, ecx, edx, ebx, esp, ebp, esi, edi, eflags
    ROOM dw, cs, ds, es, ss, fs, gs
start_gdt: dw 0
    dd 0
start_idt: dw 0
    dd 0
    ROOM dd, cr0, cr2, cr3, cr4, dr0, dr1, dr2, dr3, dr6, dr7
    ROOM dw, fcw, fsw
; APIC_BASE, EFER, FS_BASE, GS_BASE, KERNEL_GS_BASE, SYSENTER_EIP, PAT, TSC_AUX, PERF_GLOBAL_CTRL,
; FIXED_CTR_CTRL, DEBUGCTL, MTRR_DEF_TYPE
start_msrs:
%macro MSRS 1-*
%rep %0
    dd %1
    dq 0
%rotate 1
%endrep
%endmacro
    MSRS 0x1b, IA32_EFER, 0xc0000100, 0xc0000101, 0xc0000102, 0x176
    MSRS 0x277, 0xc0000103, 0x38f, 0x38d, 0x1d9, 0x2ff
start_msrs_end:
global start_code_end
start_code_end:

section .noinit nobits alloc write align=4096
global ap_stacks
ap_stacks: resb KERNEL_PROCESSORS * AP_STACKS

section .note.GNU-stack noalloc noexec nowrite progbits
