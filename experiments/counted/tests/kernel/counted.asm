; SPDX-License-Identifier: BSD-2-Clause
;
; The operations of test_counted.c, each of as few instructions as it takes, and the run around one.
; SDM Vol. 2, "RDPMC"; Vol. 3, "Interrupt and Exception Handling in 64-bit Mode".

bits 64
default rel

%include "registers.inc"

%define RFLAGS_TF 0x100
%define RFLAGS_FIXED 2
; struct counted_run
%define OPERATION 0
%define RAX_IN 8
%define RCX_IN 16
%define RDX_IN 24
%define RSI_IN 32
%define RDI_IN 40
%define REGION 48
%define BEFORE 56
%define AFTER (BEFORE + 4 * 8)

%macro READ 2 ; counter, where all of them go
    mov ecx, %1
    rdpmc
    mov [rbx + %2 + 8 * %1], eax
    mov [rbx + %2 + 8 * %1 + 4], edx
%endmacro

section .text

global counted_run
counted_run:
    PUSH_CALLEE_SAVED
    mov rbx, rdi
    mov r12, rdi
    READ 3, BEFORE
    READ 2, BEFORE
    READ 1, BEFORE
    READ 0, BEFORE
    mov eax, [rbx + REGION]
    mov ecx, 1
    xchg bx, bx                 ; the ledger's region begins
    mov rax, [r12 + RAX_IN]
    mov rcx, [r12 + RCX_IN]
    mov rdx, [r12 + RDX_IN]
    mov rsi, [r12 + RSI_IN]
    mov rdi, [r12 + RDI_IN]
    call [r12 + OPERATION]
    mov rbx, r12
    mov eax, [rbx + REGION]
    xor ecx, ecx
    xchg bx, bx
    READ 0, AFTER
    READ 1, AFTER
    READ 2, AFTER
    READ 3, AFTER
    POP_CALLEE_SAVED
    ret

%macro OPERATION_OF 2+
global counted_%1
counted_%1:
    %2
    ret
%endmacro

    OPERATION_OF cpuid, cpuid
    OPERATION_OF rdmsr, rdmsr
    OPERATION_OF wrmsr, wrmsr
    OPERATION_OF rdpmc, rdpmc
    OPERATION_OF in, in al, dx
    OPERATION_OF out, out dx, al
    OPERATION_OF outs, rep outsb
    OPERATION_OF ins, rep insb
    OPERATION_OF xsetbv, xsetbv
    OPERATION_OF invd, invd
    OPERATION_OF wbinvd, wbinvd
    OPERATION_OF vmcall, vmcall
    OPERATION_OF nop, db 0x0f, 0x1f, 0x00 ; as long as VMCALL
    OPERATION_OF cr3, mov cr3, rdi
    OPERATION_OF stos, rep stosb
    OPERATION_OF icebp, db 0xf1 ; INT1
    OPERATION_OF int3, int3

global counted_empty
counted_empty:
    ret

global counted_read
counted_read:
    mov eax, [rdi]
.behind:
    ret

; To a RET, whose address is read.
global counted_jump
counted_jump:
    jmp [rdi]

; IA32_PERF_GLOBAL_CTRL, off and on again.
global counted_stop_start
counted_stop_start:
    wrmsr
    mov eax, esi
    mov edx, edi
    wrmsr
    ret

global counted_loop
counted_loop:
    dec ecx
    jnz counted_loop
    ret

; An IPI by its register, and room in which it comes.
global counted_icr
counted_icr:
    wrmsr
    times 8 nop
    ret

global counted_open
counted_open:
    sti
    nop
    cli
    ret

; With an interrupt pending: HLT is in the shadow of STI.
global counted_halt
counted_halt:
    sti
    hlt
    cli
    ret

global counted_string, counted_string_here
counted_string:
    cld
    sti
    nop
counted_string_here:
    rep lodsb
    nop
    cli
    ret

; Three instructions in single steps, and the two that turn it off; the middle one may exit.
%macro STEPS 1
    pushfq
    or qword [rsp], RFLAGS_TF
    popfq
    nop
    %1
    nop
    pushfq
    and qword [rsp], ~RFLAGS_TF
    popfq
    ret
%endmacro

global counted_step, counted_step_cpuid
counted_step:
    STEPS nop
counted_step_cpuid:
    STEPS cpuid

; By SYSRET into user mode, and by SYSCALL back: RSP stays, and nothing may come in between.
%macro USER 1
    lea rcx, [counted_user_page.%1]
    mov r11d, RFLAGS_FIXED
    mov r13, rsp
    o64 sysret
%endmacro

global counted_user_empty, counted_user_call, counted_user_cpuid
counted_user_empty:
    USER empty
counted_user_call:
    USER call
counted_user_cpuid:
    USER cpuid

; R15: how many system calls are to come back to user mode.
global counted_entry
counted_entry:
    test r15d, r15d
    jz .done
    dec r15d
    o64 sysret
.done:
    mov rsp, r13
    ret

align 4096
global counted_user_page
counted_user_page:
.empty:
    xor r15d, r15d
    syscall
.call:
    mov r15d, 1
    syscall
    syscall
.cpuid:
    xor r15d, r15d
    cpuid
    syscall
align 4096

; Of interrupts, NMIs and single steps.
align 16
global counted_interrupt
counted_interrupt:
    inc qword [counted_events]
    mov [counted_left], rcx
    push rax
    mov rax, [rsp + 8]
    mov [counted_from], rax
    pop rax
    iretq

align 16
global counted_fault
counted_fault:
    inc qword [counted_events]
    add rsp, 8                  ; the error code
    lea rax, [counted_read.behind]
    mov [rsp], rax
    iretq

section .bss
global counted_events, counted_from, counted_left
alignb 8
counted_events: resq 1
counted_from: resq 1
counted_left: resq 1

section .note.GNU-stack noalloc noexec nowrite progbits
