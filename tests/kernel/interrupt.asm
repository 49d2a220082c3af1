; SPDX-License-Identifier: BSD-2-Clause
;
; Entries of the interrupts that test_interrupts.c judges. They run on the stack of what they
; interrupt, so that one may come inside the handler of another.

bits 64
default rel

%include "registers.inc"

extern interrupt_handle

%define FIRST 0x1f              ; as interrupt.h has them
%define LAST 0xef

section .text

    STUBS interrupt, FIRST, LAST - FIRST + 1, interrupt_common

interrupt_common:
    HANDLE interrupt_handle

; One that the local APIC took back, for the vector of its SVR: there is nothing to acknowledge.
align 16
global interrupt_spurious
interrupt_spurious:
    lock inc qword [spurious_interrupts]
    iretq

; void open_NAME(void): IF is 0 before and after; interrupts come where open_NAME_here is, and not
; before.
%macro OPEN 2+
global open_%1, open_%1_here
open_%1:
    %2
open_%1_here:
    cli
    ret
%endmacro

%macro STI_NOP 0
    sti
    nop
%endmacro
; An exit in the shadow of STI.
%macro STI_CPUID 0
    push rbx
    xor eax, eax
    xor ecx, ecx
    sti
    cpuid
%endmacro
; With the stack's segment loaded in the shadow of STI, the one behind it is in a shadow, too.
%macro STI_MOV_SS 0
    mov eax, ss
    sti
    mov ss, eax
    nop
%endmacro

    OPEN nop, STI_NOP
    OPEN mov_ss, STI_MOV_SS

global open_cpuid, open_cpuid_here
open_cpuid:
    STI_CPUID
open_cpuid_here:
    cli
    pop rbx
    ret

; void open_never(void): STI's shadow reaches to behind the CLI.
global open_never
open_never:
    sti
    cli
    ret

section .bss
global spurious_interrupts
alignb 8
spurious_interrupts: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
