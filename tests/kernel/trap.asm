; SPDX-License-Identifier: BSD-2-Clause
;
; Entries of exceptions, NMIs and stray interrupts. A fault that a test expects goes on without
; IRET, because an IRET would unblock NMIs in the middle of a handler.
; SDM Vol. 3, "Error Code", "Handling Multiple NMIs".

bits 64
default rel

extern unexpected_fault
extern nmi_handle
extern apic_eoi

; On an expected fault's stack: vector, error code, then what the processor pushed.
%define FRAME_VECTOR 0
%define FRAME_RFLAGS 32
%define FRAME_RSP 40

%include "registers.inc"

section .text

    STUBS exception, 0, 32, exception_common

exception_common:
    cmp qword [fault_resume], 0
    je .unexpected
    ; No register may change: the stack is the only place to work in.
    push qword [rsp + FRAME_VECTOR]
    pop qword [fault_vector]
    RESUME_FROM [fault_count], [fault_resume], [resume_now]
.unexpected:
    UNEXPECTED

    BEGIN_EVENT nmi_entry, 0
    cld
    mov rdi, rsp
    ; 5 words from the processor on a 16-byte boundary and 17 from here: aligned.
    call nmi_handle
    END_EVENT

; One that may come inside the handler above, on another stack: it only counts.
align 16
global nmi_counted_entry
nmi_counted_entry:
    inc qword [nmi_counted]
    iretq

    BEGIN_EVENT stray_interrupt, 0
    cld
    inc qword [stray_interrupts]
    EOI_AND_RETURN

; bool rdmsr_try(uint32_t index, uint64_t *value), bool wrmsr_try(uint32_t index, uint64_t value)
global rdmsr_try
rdmsr_try:
    TRY_RDMSR [fault_resume]

global wrmsr_try
wrmsr_try:
    lea rax, [.faulted]
    mov [fault_resume], rax
    mov ecx, edi
    mov eax, esi
    mov rdx, rsi
    shr rdx, 32
    wrmsr
    mov qword [fault_resume], 0
    mov eax, 1
    ret
.faulted:
    xor eax, eax
    ret

; bool read_try(uint64_t address, uint64_t *value)
global read_try
read_try:
    lea rax, [.faulted]
    mov [fault_resume], rax
    mov rax, [rdi]
    mov qword [fault_resume], 0
    mov [rsi], rax
    mov eax, 1
    ret
.faulted:
    xor eax, eax
    ret

; bool call_try(const void *code, uint64_t rdi): false where the code's first instruction faults
global call_try
call_try:
    lea rax, [.faulted]
    mov [fault_resume], rax
    mov rax, rdi
    mov rdi, rsi
    call rax
    mov qword [fault_resume], 0
    mov eax, 1
    ret
.faulted:
    add rsp, 8 ; where it would have come back to
    xor eax, eax
    ret

section .bss
global fault_resume, fault_vector, fault_count, stray_interrupts, nmi_counted
alignb 8
fault_resume: resq 1
fault_vector: resq 1
fault_count: resq 1
stray_interrupts: resq 1
nmi_counted: resq 1
resume_now: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
