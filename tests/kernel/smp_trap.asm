; SPDX-License-Identifier: BSD-2-Clause
;
; Entries of exceptions, NMIs and interrupts where several processors run: as in trap.asm, but all
; state is the processor's own, by GS (struct processor in smp.h).
; SDM Vol. 3, "Error Code", "Handling Multiple NMIs".

bits 64
default rel

extern unexpected_fault
extern smp_nmi_handle
extern apic_eoi

%define FRAME_RFLAGS 32         ; on the stack: vector, error code, then what the processor pushed
%define FRAME_RSP 40
%define P_FAULT_RESUME 8
%define P_RESUME_NOW 16
%define P_FAULTS 24

%include "registers.inc"

section .text

    STUBS smp_exception, 0, 32, smp_exception_common

smp_exception_common:
    cmp qword [gs:P_FAULT_RESUME], 0
    je .unexpected
    RESUME_FROM [gs:P_FAULTS], [gs:P_FAULT_RESUME], [gs:P_RESUME_NOW]
.unexpected:
    UNEXPECTED

    BEGIN_EVENT smp_nmi_entry, 0
    cld
    mov rdi, rsp
    call smp_nmi_handle
    POP_REGISTERS
    add rsp, 16
    ; Behind an NMI between STI and HLT the interrupt that was to end the HLT comes before it.
    push rax
    lea rax, [sleeping]
    cmp [rsp + 8], rax
    jne .back
    inc qword [rsp + 8]         ; past the HLT, which has one byte
.back:
    pop rax
    iretq

; void smp_sleep(void): until an interrupt or NMI; IF is 0 before and after.
global smp_sleep, smp_asleep
smp_sleep:
    sti
sleeping:
    hlt
smp_asleep:                     ; where the HLT will go on
    cli
    ret

; An interrupt that ends a HLT.
    BEGIN_EVENT smp_interrupt, 0
    cld
    EOI_AND_RETURN

; bool smp_rdmsr_try(uint32_t index, uint64_t *value)
global smp_rdmsr_try
smp_rdmsr_try:
    TRY_RDMSR [gs:P_FAULT_RESUME]

section .note.GNU-stack noalloc noexec nowrite progbits
